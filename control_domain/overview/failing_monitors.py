"""Heartbeats that are late or down, and queues beyond their thresholds."""

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.overview.attention_items import MAX_ITEMS, Found, Section, make_item
from control_domain.overview.deployments_and_changes import count_rows
from control_domain.projects.describe import summarize_environment, summarize_project
from control_domain.projects.find import in_visible_projects
from control_domain.tables.monitors import IS_FAILING, Heartbeat, HeartbeatState, Queue, QueueState
from control_domain.tables.notifications import AlertThreshold
from control_domain.tables.projects import Environment, Project
from pipeline_contracts.times import format_time, from_epoch_ms

_MAX_THRESHOLDS = 500


async def find_failing_heartbeats(session: AsyncSession, caller: Caller) -> Section:
    """Return the heartbeats that are down, then those that are late, the newest first."""
    # Account scope: `in_visible_projects` is bound to the account.
    failing = (
        select(HeartbeatState.heartbeat_id, HeartbeatState.state, HeartbeatState.since_ms)
        # The same text as in the partial index, so that the database uses it: few heartbeats are late or down.
        .where(text(IS_FAILING))
        .subquery()
    )
    query = (
        select(Heartbeat, failing.c.state, failing.c.since_ms, Environment, Project)
        .join(failing, failing.c.heartbeat_id == Heartbeat.id)
        .join(Environment, Environment.id == Heartbeat.environment_id)
        .join(Project, Project.id == Environment.project_id)
        .where(*in_visible_projects(caller))
        .order_by(failing.c.state, failing.c.since_ms.desc())
    )
    found = []
    for heartbeat, state, since_ms, environment, project in await session.execute(query.limit(MAX_ITEMS)):
        is_down = state == "down"
        item = make_item(
            "heartbeat.down" if is_down else "heartbeat.late",
            "critical" if is_down else "warning",
            f"{heartbeat.name} is {'down' if is_down else 'late'}",
            format_time(from_epoch_ms(since_ms)),
            ("heartbeat", heartbeat.id),
            summarize_project(project),
            summarize_environment(environment),
        )
        found.append(Found(item, [(environment.public_id, "heartbeat", str(heartbeat.id))]))
    return Section(found, await count_rows(session, query.with_only_columns(Heartbeat.id)))


async def find_full_queues(session: AsyncSession, caller: Caller) -> Section:
    """Return the queues that are beyond one of their thresholds now."""
    # Account scope: `in_visible_projects` is bound to the account.
    query = (
        select(Queue, AlertThreshold, QueueState, Environment, Project)
        .join(AlertThreshold, AlertThreshold.environment_id == Queue.environment_id)
        .join(QueueState, QueueState.queue_id == Queue.id)
        .join(Environment, Environment.id == Queue.environment_id)
        .join(Project, Project.id == Environment.project_id)
        .where(
            AlertThreshold.target == Queue.name,
            AlertThreshold.kind.in_(("queue.wait", "queue.size")),
            AlertThreshold.enabled,
            *in_visible_projects(caller),
        )
        .order_by(AlertThreshold.id)
        .limit(_MAX_THRESHOLDS)
    )
    found = []
    for queue, threshold, state, environment, project in await session.execute(query):
        is_size = threshold.kind == "queue.size"
        value = state.pending if is_size else state.oldest_wait_seconds or 0
        if not (value > threshold.threshold if threshold.is_above else value < threshold.threshold):
            continue
        item = make_item(
            "queue.size" if is_size else "queue.wait",
            "critical" if threshold.severity == "critical" else "warning",
            f"{queue.name} has {value:,} pending jobs"
            if is_size
            else f"The oldest job of {queue.name} has waited for {value:,} s",
            format_time(from_epoch_ms(state.observed_us // 1000)),
            ("queue", queue.id),
            summarize_project(project),
            summarize_environment(environment),
            detail=f"Threshold {threshold.name}: {threshold.threshold:,g}{'' if is_size else ' s'}",
        )
        found.append(Found(item, [(environment.public_id, "queue", queue.name)]))
    return Section(found[:MAX_ITEMS], len(found))
