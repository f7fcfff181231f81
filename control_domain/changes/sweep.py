"""Finds the topics of an account that have changed, by one cheap query of marks.

A mark consists of a row's number and those of its values that may change. Each sweep compares the marks with those of
the previous sweep. No source reads a whole table: it reads the newest rows of an index, or the few rows of a partial
index. The audit log shows all changes by people, so the other sources only cover changes by Pharos itself.
"""

import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, reduce
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Integer,
    Select,
    String,
    bindparam,
    cast,
    func,
    literal,
    literal_column,
    select,
    text,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from control_domain.changes.topics import TOPICS, Topic, topics_of_action
from control_domain.tables.audit import AuditEntry
from control_domain.tables.configuration import ConfigurationRun, RunStep
from control_domain.tables.deployments import IS_ACTIVE, IS_AWAITING, Deployment
from control_domain.tables.monitors import (
    Heartbeat,
    HeartbeatState,
    Queue,
    QueueState,
    QueueWorker,
)
from control_domain.tables.notifications import IS_FIRING, AlertIncident, Notification
from control_domain.tables.projects import Environment, Project
from control_domain.tables.repositories import Repository
from control_domain.tables.runtime import Instance
from control_domain.tables.webhooks import WebhookDelivery
from pipeline_contracts.times import to_epoch_ms

Marks = Mapping[str, frozenset[tuple[int, str]]]
"""The marks of each source."""

_ACCOUNT = bindparam("account", type_=Integer)
_NOW_MS = bindparam("now_ms", type_=BigInteger)
_AUDITED = "audit"
# More audit entries than an account usually has between two sweeps.
_NEWEST = 25
_OPEN_ROWS = 200
# Consumers of different partitions do not apply signals in the order of time, but none lags by more than this.
_WINDOW_MS = 5000
# The newest rows of all accounts together: enough for some hundred signals a second.
_WINDOW_ROWS = 500
_INSTANCES = 1000


@dataclass(frozen=True, slots=True)
class _Source:
    """A query of marks: the columns are a number and a text."""

    topics: frozenset[Topic]
    select: Callable[[], Select[int, Any]]
    is_window: bool
    """True if the source reads only the newest rows, so that a missing mark is not a change."""


def _mark(*parts: Any) -> Any:
    """Return the expression of a mark of several columns."""
    return reduce(operator.add, (func.coalesce(cast(part, String), "") + "/" for part in parts))


def _audited() -> Select[int, Any]:
    return (
        select(AuditEntry.id, AuditEntry.action)
        .where(AuditEntry.account_id == _ACCOUNT)
        .order_by(AuditEntry.id.desc())
        .limit(_NEWEST)
    )


def _newest_deployments() -> Select[int, Any]:
    return (
        select(Deployment.id, _mark(Deployment.status, Deployment.step))
        .where(Deployment.account_id == _ACCOUNT)
        .order_by(Deployment.id.desc())
        .limit(_NEWEST)
    )


def _active_deployments() -> Select[int, Any]:
    """Return the query of active deployments, of which there is one in an environment at most."""
    # Account scope: the condition is written as a sum, so that SQLite uses the index of active deployments.
    marks = _mark(Deployment.status, Deployment.step, Deployment.attempts)
    return (
        select(Deployment.id, marks)
        .where((Deployment.account_id + 0) == _ACCOUNT, text(IS_ACTIVE))
        .limit(_OPEN_ROWS)
    )


def _awaiting_deployments() -> Select[int, Any]:
    return (
        select(Deployment.id, _mark(Deployment.commit_looked_up_at, Deployment.commit_subject))
        .where(Deployment.account_id == _ACCOUNT, text(IS_AWAITING))
        .limit(_OPEN_ROWS)
    )


def _instances() -> Select[int, Any]:
    # Account scope: the condition is written as a sum, so that SQLite does not begin with all deployments of the
    # account: there are few instances.
    return (
        select(Instance.id, _mark(Instance.state, Instance.restarts, Instance.pid))
        .join(Deployment, Deployment.id == Instance.deployment_id)
        .where((Deployment.account_id + 0) == _ACCOUNT)
        .limit(_INSTANCES)
    )


def _running_steps() -> Select[int, Any]:
    return (
        select(RunStep.id, _mark(RunStep.status, RunStep.attempts))
        .join(ConfigurationRun, ConfigurationRun.id == RunStep.run_id)
        .join(Project, Project.id == ConfigurationRun.project_id)
        .where(Project.account_id == _ACCOUNT, ConfigurationRun.status == literal_column("'running'"))
        .limit(_OPEN_ROWS)
    )


def _deliveries() -> Select[int, Any]:
    # Account scope: this reads the few newest deliveries of all accounts and keeps those of the account.
    newest = (
        select(WebhookDelivery.id, WebhookDelivery.repository_id)
        .order_by(WebhookDelivery.id.desc())
        .limit(_WINDOW_ROWS)
        .subquery()
    )
    return (
        select(newest.c.id, literal(""))
        .join(Repository, Repository.id == newest.c.repository_id)
        .join(Project, Project.id == Repository.project_id)
        .where((Project.account_id + 0) == _ACCOUNT)
        .order_by(newest.c.id.desc())
        .limit(_NEWEST)
    )


def _begin_of_window(time: InstrumentedAttribute[Any]) -> Any:
    """Return the expression of the time shortly before the latest one. Times in the future do not count: they come from
    a clock that is ahead, and would hide the changes of everybody else."""
    latest = select(func.max(time)).where(time <= _NOW_MS).scalar_subquery()
    return func.coalesce(latest, _NOW_MS) - _WINDOW_MS


def _heartbeats(time: InstrumentedAttribute[Any]) -> Select[int, Any]:
    """Return the query of heartbeats whose `time` lies shortly before the latest one."""
    # Account scope: see `_deliveries`.
    changed = (
        select(HeartbeatState.heartbeat_id, HeartbeatState.version, time.label("at"))
        .where(time >= _begin_of_window(time))
        .order_by(time.desc())
        .limit(_WINDOW_ROWS)
        .subquery()
    )
    return (
        select(changed.c.heartbeat_id, _mark(changed.c.version))
        .join(Heartbeat, Heartbeat.id == changed.c.heartbeat_id)
        .join(Environment, Environment.id == Heartbeat.environment_id)
        .join(Project, Project.id == Environment.project_id)
        .where((Project.account_id + 0) == _ACCOUNT)
        .order_by(changed.c.at.desc())
        .limit(_NEWEST)
    )


def _queues(
    table: type[QueueState] | type[QueueWorker], mark: InstrumentedAttribute[Any]
) -> Select[int, Any]:
    """Return the query of queues with a report shortly before the latest one."""
    changed = (
        select(table.queue_id, mark.label("mark"), table.received_ms.label("at"))
        .where(table.received_ms >= _begin_of_window(table.received_ms))
        .order_by(table.received_ms.desc())
        .limit(_WINDOW_ROWS)
        .subquery()
    )
    return (
        select(changed.c.queue_id, _mark(changed.c.mark, changed.c.at))
        .join(Queue, Queue.id == changed.c.queue_id)
        .join(Environment, Environment.id == Queue.environment_id)
        .join(Project, Project.id == Environment.project_id)
        .where((Project.account_id + 0) == _ACCOUNT)
        .order_by(changed.c.at.desc())
        .limit(_NEWEST)
    )


def _newest_incidents() -> Select[int, Any]:
    return (
        select(AlertIncident.id, _mark(AlertIncident.changed_at, AlertIncident.state))
        .where(AlertIncident.account_id == _ACCOUNT)
        .order_by(AlertIncident.id.desc())
        .limit(_NEWEST)
    )


def _firing_incidents() -> Select[int, Any]:
    return (
        select(AlertIncident.id, _mark(AlertIncident.changed_at, AlertIncident.acknowledged_at))
        .where(AlertIncident.account_id == _ACCOUNT, text(IS_FIRING))
        .order_by(AlertIncident.id.desc())
        .limit(_OPEN_ROWS)
    )


def _newest_notifications() -> Select[int, Any]:
    return (
        select(Notification.id, _mark(Notification.status, Notification.attempts))
        .where(Notification.account_id == _ACCOUNT)
        .order_by(Notification.id.desc())
        .limit(_NEWEST)
    )


def _source(make: Callable[[], Select[int, Any]], *topics: Topic, is_window: bool = False) -> _Source:
    return _Source(frozenset(topics), make, is_window)


_SOURCES: Final[Mapping[str, _Source]] = {
    _AUDITED: _source(_audited, *TOPICS, is_window=True),
    "newest deployments": _source(_newest_deployments, "deployments", is_window=True),
    "active deployments": _source(_active_deployments, "deployments"),
    "awaiting deployments": _source(_awaiting_deployments, "deployments", "approvals"),
    "instances": _source(_instances, "environments"),
    "running steps": _source(_running_steps, "configuration"),
    "deliveries": _source(_deliveries, "webhooks", is_window=True),
    "signals": _source(lambda: _heartbeats(HeartbeatState.last_signal_ms), "heartbeats", is_window=True),
    "states": _source(lambda: _heartbeats(HeartbeatState.since_ms), "heartbeats", is_window=True),
    "snapshots": _source(lambda: _queues(QueueState, QueueState.snapshot_id), "queues", is_window=True),
    "workers": _source(lambda: _queues(QueueWorker, QueueWorker.sequence), "queues", is_window=True),
    "newest incidents": _source(_newest_incidents, "incidents", is_window=True),
    "firing incidents": _source(_firing_incidents, "incidents"),
    "newest notifications": _source(_newest_notifications, "notifications", is_window=True),
}


@cache
def _statement(names: tuple[str, ...]) -> Any:
    """Return one statement for all of these sources: one statement per source would cost several times as much."""
    parts = []
    for name in names:
        marks = _SOURCES[name].select().subquery()
        number, mark = marks.c
        parts.append(select(literal(name), cast(number, BigInteger), mark).select_from(marks))
    return union_all(*parts)


async def read_marks(session: AsyncSession, account_id: int, topics: Collection[Topic]) -> Marks:
    """Return the present marks of the sources of these topics."""
    names = tuple(name for name, source in _SOURCES.items() if not source.topics.isdisjoint(topics))
    found: dict[str, set[tuple[int, str]]] = {name: set() for name in names}
    parameters = {"account": account_id, "now_ms": to_epoch_ms(datetime.now(UTC))}
    for name, number, mark in await session.execute(_statement(names), parameters):
        found[name].add((number, mark))
    return {name: frozenset(marks) for name, marks in found.items()}


def changed_topics(before: Marks, after: Marks) -> frozenset[Topic]:
    """Return the topics whose marks differ. Sources that were not read before are not compared."""
    changed: set[Topic] = set()
    for name, marks in after.items():
        if name not in before:
            continue
        source, added = _SOURCES[name], marks - before[name]
        if name == _AUDITED:
            changed |= _audited_topics(before[name], marks)
        elif added or (not source.is_window and before[name] - marks):
            changed |= source.topics
    return frozenset(changed)


def _audited_topics(
    before: frozenset[tuple[int, str]], after: frozenset[tuple[int, str]]
) -> frozenset[Topic]:
    added = after - before
    if len(added) == _NEWEST and before:
        # There may be more new entries than the sweep reads.
        return frozenset(TOPICS)
    return frozenset[Topic]().union(*(topics_of_action(action) for _, action in added))
