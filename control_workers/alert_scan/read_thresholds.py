"""Reads the thresholds of all accounts."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import inspect, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.tables.notifications import AlertState, AlertThreshold
from control_domain.tables.projects import Environment, Project
from control_workers.alert_scan.conditions import Observed, Scope
from control_workers.alert_scan.judge import Changes, Remembered
from control_workers.alert_scan.phases import Limits

MAX_WINDOW_MINUTES = 60
"""The longest window whose values are read at each scan."""
_UNITS = {"queue.wait": "s", "queue.size": "jobs", "service.error_rate": "%", "service.latency": "ms"}
PREFIX = "threshold "
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class ThresholdOf:
    """A threshold, and the environment that it belongs to."""

    row: AlertThreshold
    environment: str
    """The public ID of the environment."""
    scope: Scope

    @property
    def window_minutes(self) -> int:
        """Return the length of the window in whole minutes."""
        return min(max(1, -(-self.row.window_seconds // 60)), MAX_WINDOW_MINUTES)

    def observe(self, value: float | None) -> Observed:
        """Return the condition of the threshold with this value."""
        row = self.row
        subject = f"{PREFIX}{row.id}"
        limits = Limits(row.threshold, row.recovery, row.is_above, timedelta(seconds=row.pending_seconds))
        return Observed(
            subject, self.scope, row.kind, subject, limits, value, self._facts(), keeps_state=True
        )

    def _facts(self) -> dict[str, Any]:
        row = self.row
        facts: dict[str, Any] = {
            "name": row.name,
            "target": row.target,
            "severity": row.severity,
            "unit": _UNITS.get(row.kind, ""),
            "environment": self.environment,
        }
        if row.kind.startswith("queue."):
            return facts
        facts["window_seconds"] = self.window_minutes * 60
        if row.kind == "metric.value":
            facts |= {"aggregation": row.aggregation, "service": row.service}
        return facts


async def read_thresholds(session: AsyncSession) -> Sequence[ThresholdOf]:
    """Return all thresholds, including disabled ones."""
    query = (
        select(AlertThreshold, Environment.public_id, Project.account_id, Project.id, Environment.id)
        .join(Environment, Environment.id == AlertThreshold.environment_id)
        .join(Project, Project.id == Environment.project_id)
        .order_by(AlertThreshold.id)
    )
    return [
        ThresholdOf(row, environment, Scope(*scope))
        for row, environment, *scope in await session.execute(query)
    ]


async def leave_out_changed(
    session: AsyncSession,
    thresholds: Sequence[ThresholdOf],
    states: Mapping[str, Remembered],
    changes: Changes,
) -> None:
    """Remove from `changes` the thresholds that a person has changed since they were read. That change has ended
    their incidents, and the next scan evaluates the new settings. All other thresholds stay locked until the end of
    the transaction."""
    read = {f"{PREFIX}{each.row.id}": each.row for each in thresholds}
    # Columns that only the scan writes need not be compared.
    touched = sorted(key for key in {*changes.written, *changes.deleted} if key in read)
    for first in range(0, len(touched), _AT_ONCE):
        keys = touched[first : first + _AT_ONCE]
        unchanged = await _find_unchanged(session, [read[key] for key in keys])
        known = select(AlertState.key).where(AlertState.key.in_(keys))
        stored = set(await session.scalars(known))
        for key in keys:
            was_ended = key in states and key not in stored
            if key not in unchanged or was_ended:
                changes.leave_out(key)


async def _find_unchanged(session: AsyncSession, rows: Sequence[AlertThreshold]) -> Collection[str]:
    # If a threshold is locked, somebody is changing it. Waiting for the lock could cause a deadlock.
    present = await session.scalars(
        select(AlertThreshold)
        .where(AlertThreshold.id.in_([row.id for row in rows]))
        .order_by(AlertThreshold.id)
        .with_for_update(read=True, skip_locked=True)
    )
    values = {row.id: _values(row) for row in present}
    return {f"{PREFIX}{row.id}" for row in rows if values.get(row.id) == _values(row)}


def _values(row: AlertThreshold) -> Sequence[Any]:
    return [getattr(row, attribute.key) for attribute in inspect(AlertThreshold).column_attrs]
