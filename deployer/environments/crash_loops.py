"""Finds processes that crash repeatedly, and records this in the transaction that writes their instances.

A crash loop begins when one instance of the live release was restarted three times within five minutes, and ends when
no instance was restarted for five minutes and all instances run, or when the instances are replaced or ended.
Instances of a deployment that is not live yet are not counted: that deployment fails and reports its failure itself.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.alert_events import record_alert_event
from control_domain.deployments.alerts import PREVIEW_SEVERITY
from control_domain.tables.notifications import AlertState
from control_domain.tables.projects import Environment, Project
from control_domain.tables.runtime import Instance
from deployer.deployments.record import read_live_deployment
from deployer.drivers.interface import InstanceStatus
from pipeline_contracts.times import to_epoch_ms

_RESTARTS = 3
_WINDOW_SECONDS = 300
# An instance restarts at most once a second.
_MAX_STORED = 10

Key = tuple[int, str, int]
"""Identifies an instance: its deployment, process name and number."""
Change = Literal["begins", "stable", "replaced", "stopped"]


@dataclass(slots=True)
class CrashHistory:
    """The restarts of one process within the last minutes."""

    restarts_ms: dict[str, list[int]] = field(default_factory=dict)
    """The times of the restarts in milliseconds since 1970, by `deployment/number` of the instance."""
    is_firing: bool = False
    deployment_id: int | None = None
    """The ID of the deployment whose instances crash."""

    @property
    def most_restarts(self) -> int:
        return max(map(len, self.restarts_ms.values()), default=0)


def count_restarts(before: int | None, instance: InstanceStatus) -> int:
    """Return the number of restarts since the last write, at which the instance was `before`. A new deployer starts
    the count at 0."""
    if before is None or instance.restarts < before:
        return instance.restarts
    return instance.restarts - before


def judge_crashes(
    history: CrashHistory, instances: Sequence[tuple[InstanceStatus, int]], now_ms: int
) -> Change | None:
    """Add the new restarts of a process's live instances to its history. Return the resulting change, or None."""
    for instance, restarts in instances:
        key = f"{instance.deployment_id}/{instance.number}"
        history.restarts_ms[key] = [*history.restarts_ms.get(key, ()), *[now_ms] * restarts][-_MAX_STORED:]
    begin_ms = now_ms - 1000 * _WINDOW_SECONDS
    newer = {key: [ms for ms in times if ms > begin_ms] for key, times in history.restarts_ms.items()}
    history.restarts_ms = {key: times for key, times in newer.items() if times}
    deployments = {instance.deployment_id for instance, _ in instances}
    if history.is_firing:
        ended: Change | None = None
        if not instances:
            ended = "stopped"
        elif history.deployment_id not in deployments:
            ended = "replaced"
        elif not history.restarts_ms and all(instance.state == "running" for instance, _ in instances):
            ended = "stable"
        if ended is not None:
            history.is_firing = False
            history.restarts_ms = {}
        return ended
    if not instances:
        history.restarts_ms = {}
    elif history.most_restarts >= _RESTARTS:
        history.is_firing = True
        history.deployment_id = max(deployments)
        return "begins"
    return None


async def record_crash_loops(
    session: AsyncSession, environment_id: int, instances: Sequence[InstanceStatus], now: datetime
) -> bool:
    """Record crash loops that begin or end, before the instances are written.

    Return True if a process must be checked again later although none of its instances changes.
    """
    # The characters "_" and "%" do not occur in these keys, except in the names of processes.
    prefix = f"process {environment_id} "
    rows = select(AlertState).where(AlertState.key.startswith(prefix, autoescape=True))
    states = {row.key.removeprefix(prefix): row for row in (await session.execute(rows)).scalars()}
    if not states and not any(instance.restarts for instance in instances):
        return False
    before = await _read_restarts(session, environment_id)
    live = await read_live_deployment(session, environment_id)
    by_process: dict[str, list[tuple[InstanceStatus, int]]] = {name: [] for name in states}
    for instance in instances:
        if instance.deployment_id == live and instance.state != "draining":
            known = before.get((instance.deployment_id, instance.process, instance.number))
            by_process.setdefault(instance.process, []).append((instance, count_restarts(known, instance)))
    is_open = False
    for process, found in by_process.items():
        row = states.get(process)
        history = CrashHistory() if row is None else _read_history(row)
        change = judge_crashes(history, found, to_epoch_ms(now))
        if change is not None:
            facts = _facts(process, history, [instance for instance, _ in found], change)
            await _record(session, environment_id, process, change, facts, now)
        is_open |= await _store(session, f"{prefix}{process}", row, history, now)
    return is_open


async def _read_restarts(session: AsyncSession, environment_id: int) -> Mapping[Key, int]:
    query = select(Instance.deployment_id, Instance.process, Instance.number, Instance.restarts)
    rows = await session.execute(query.where(Instance.environment_id == environment_id))
    return {(deployment, process, number): restarts for deployment, process, number, restarts in rows}


def _read_history(row: AlertState) -> CrashHistory:
    details = json.loads(row.details)
    return CrashHistory(details["restarts_ms"], row.phase == "firing", details["deployment_id"])


async def _store(
    session: AsyncSession, key: str, row: AlertState | None, history: CrashHistory, now: datetime
) -> bool:
    """Store the history and return True. If there is nothing to remember, delete it and return False."""
    if not history.is_firing and not history.restarts_ms:
        if row is not None:
            await session.execute(delete(AlertState).where(AlertState.key == key))
        return False
    phase = "firing" if history.is_firing else "pending"
    if row is None:
        row = AlertState(key=key, phase=phase, since=now)
        session.add(row)
    elif row.phase != phase:
        row.phase, row.since = phase, now
    row.value, row.evaluated_at = float(history.most_restarts), now
    row.details = json.dumps(
        {"restarts_ms": history.restarts_ms, "deployment_id": history.deployment_id}, sort_keys=True
    )
    return True


def _facts(
    process: str, history: CrashHistory, instances: Sequence[InstanceStatus], change: Change
) -> dict[str, Any]:
    exits = [instance.last_exit for instance in instances if instance.last_exit is not None]
    return {
        "process": process,
        "restarts": history.most_restarts,
        "threshold": _RESTARTS,
        "within_seconds": _WINDOW_SECONDS,
        "steady_seconds": _WINDOW_SECONDS,
        "last_exit": exits[-1][:300] if exits else None,
        "deployment": history.deployment_id,
        **({} if change == "begins" else {"reason": change}),
    }


async def _record(
    session: AsyncSession,
    environment_id: int,
    process: str,
    change: Change,
    facts: Mapping[str, Any],
    now: datetime,
) -> None:
    # Needs no account filter: the deployer has the lease of the environment.
    query = (
        select(Project.account_id, Project.id, Project.slug, Environment.slug, Environment.type)
        .join(Environment, Environment.project_id == Project.id)
        .where(Environment.id == environment_id)
    )
    account_id, project_id, project, environment, type_ = (await session.execute(query)).one()
    severity = {"severity": PREVIEW_SEVERITY} if type_ == "preview" else {}
    record_alert_event(
        session,
        "process.crash_loop",
        process,
        "firing" if change == "begins" else "resolved",
        now,
        account_id=account_id,
        project_id=project_id,
        environment_id=environment_id,
        facts={**facts, **severity, "environment": f"{project}/{environment}"},
    )
