"""Ends the incidents of a removed environment, project or repository, because no later event would resolve them."""

import json
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.alert_events import record_alert_event
from control_domain.tables.notifications import AlertEvent, AlertIncident, AlertState
from control_domain.tables.projects import Environment, Project


async def end_environment_incidents(
    session: AsyncSession, environment: Environment, project: Project, now: datetime
) -> None:
    """End the open incidents of the environment, and delete the deployer's state of its processes."""
    await _end_incidents(session, project, environment.id, now)
    # Rows without a foreign key.
    restarts = delete(AlertState).where(AlertState.key.startswith(f"process {environment.id} "))
    await session.execute(restarts.execution_options(synchronize_session=False))


async def end_project_incidents(session: AsyncSession, project: Project, now: datetime) -> None:
    """End the open incidents of the project itself, such as refused commit statuses."""
    await _end_incidents(session, project, None, now)


async def end_repository_incidents(session: AsyncSession, project: Project, now: datetime) -> None:
    """End the open incidents about the project's repository, whose commit statuses will no longer be sent."""
    await _end_incidents(session, project, None, now, kind="platform.commit_statuses")


async def _end_incidents(
    session: AsyncSession,
    project: Project,
    environment_id: int | None,
    now: datetime,
    *,
    kind: str | None = None,
) -> None:
    """Record the end of all open incidents, and of incidents that stored events will open, only of this `kind` if
    given."""
    incidents = select(AlertIncident.kind, AlertIncident.subject, AlertIncident.facts).where(
        AlertIncident.account_id == project.account_id,
        AlertIncident.project_id == project.id,
        AlertIncident.environment_id.is_not_distinct_from(environment_id),
        AlertIncident.open_key.is_not(None),
    )
    events = select(AlertEvent.kind, AlertEvent.subject, AlertEvent.facts).where(
        AlertEvent.account_id == project.account_id,
        AlertEvent.project_id == project.id,
        AlertEvent.environment_id.is_not_distinct_from(environment_id),
        AlertEvent.state == "firing",
    )
    found: dict[tuple[str, str], str] = {}
    for query in (incidents, events):
        found |= {(row.kind, row.subject): row.facts for row in await session.execute(query)}
    for (of_kind, subject), facts in found.items():
        if kind not in (None, of_kind):
            continue
        record_alert_event(
            session,
            of_kind,
            subject,
            "resolved",
            now,
            account_id=project.account_id,
            project_id=project.id,
            environment_id=environment_id,
            facts={**json.loads(facts), "reason": "removed"},
        )
