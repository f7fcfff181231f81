"""Ends the incident of a threshold that is no longer evaluated."""

import json
from datetime import datetime
from typing import Literal

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.alert_events import record_alert_event
from control_domain.tables.notifications import AlertIncident, AlertState, AlertThreshold
from control_domain.tables.projects import Environment, Project

Reason = Literal["changed", "disabled", "removed"]


async def end_threshold(
    session: AsyncSession,
    threshold: AlertThreshold,
    environment: Environment,
    project: Project,
    reason: Reason,
    now: datetime,
) -> None:
    """Delete the scan's state of the threshold, and record the end of its incident."""
    subject = f"threshold {threshold.id}"
    removed = delete(AlertState).where(AlertState.key == subject).returning(AlertState.phase)
    phase = (await session.execute(removed)).scalar_one_or_none()
    if phase != "firing":
        return
    facts = await session.scalar(
        select(AlertIncident.facts)
        .where(
            AlertIncident.account_id == project.account_id,
            AlertIncident.environment_id == environment.id,
            AlertIncident.subject == subject,
            AlertIncident.kind == threshold.kind,
            AlertIncident.open_key.is_not(None),
        )
        .limit(1)
    )
    record_alert_event(
        session,
        threshold.kind,
        subject,
        "resolved",
        now,
        account_id=project.account_id,
        project_id=project.id,
        environment_id=environment.id,
        facts={**json.loads(facts or "{}"), "reason": reason},
    )
