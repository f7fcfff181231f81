"""Ends the incidents of an environment that is removed: nothing in it will ever resolve them."""

import json
from datetime import datetime

from sqlalchemy import delete, select, union
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.alert_events import record_alert_event
from control_domain.tables.notifications import AlertEvent, AlertIncident, AlertState
from control_domain.tables.projects import Environment, Project


async def end_incidents(
    session: AsyncSession, environment: Environment, project: Project, now: datetime
) -> None:
    """Record the end of all open incidents of the environment, and of those that its stored events will open."""
    firing = union(
        select(AlertIncident.kind, AlertIncident.subject).where(
            AlertIncident.environment_id == environment.id,
            AlertIncident.account_id == project.account_id,
            AlertIncident.open_key.is_not(None),
        ),
        select(AlertEvent.kind, AlertEvent.subject).where(
            AlertEvent.environment_id == environment.id,
            AlertEvent.account_id == project.account_id,
            AlertEvent.state == "firing",
        ),
    )
    for kind, subject in (await session.execute(firing)).all():
        facts = await _last_facts(session, environment, project, kind, subject)
        record_alert_event(
            session,
            kind,
            subject,
            "resolved",
            now,
            account_id=project.account_id,
            project_id=project.id,
            environment_id=environment.id,
            facts={**facts, "reason": "removed"},
        )
    # What the deployer remembers of its processes, in rows without a foreign key.
    restarts = delete(AlertState).where(AlertState.key.startswith(f"process {environment.id} "))
    await session.execute(restarts.execution_options(synchronize_session=False))


async def _last_facts(
    session: AsyncSession, environment: Environment, project: Project, kind: str, subject: str
) -> dict[str, object]:
    query = (
        select(AlertIncident.facts)
        .where(
            AlertIncident.environment_id == environment.id,
            AlertIncident.account_id == project.account_id,
            AlertIncident.open_key.is_not(None),
            AlertIncident.kind == kind,
            AlertIncident.subject == subject,
        )
        .limit(1)
    )
    facts = (await session.execute(query)).scalar_one_or_none()
    read: dict[str, object] = json.loads(facts or "{}")
    return read
