"""Reads the thresholds of all accounts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.tables.notifications import AlertThreshold
from control_domain.tables.projects import Environment, Project
from control_workers.alert_scan.conditions import Observed, Scope
from control_workers.alert_scan.phases import Limits

MAX_WINDOW_MINUTES = 60
"""The longest window that is read at each scan."""
_UNITS = {"queue.wait": "s", "queue.size": "jobs", "service.error_rate": "%", "service.latency": "ms"}
PREFIX = "threshold "


@dataclass(frozen=True, slots=True)
class ThresholdOf:
    """A threshold with the environment that it is about."""

    row: AlertThreshold
    environment: str
    """The public ID."""
    scope: Scope

    @property
    def window_minutes(self) -> int:
        """The window in whole minutes."""
        return min(max(1, -(-self.row.window_seconds // 60)), MAX_WINDOW_MINUTES)

    def observe(self, value: float | None) -> Observed:
        """Return the condition with its present value."""
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
    """Return all thresholds, also those that are disabled."""
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
