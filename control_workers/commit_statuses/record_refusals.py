"""Writes alert events about Git hosts that refuse commit statuses. Each project and repository has one incident, until
the host accepts a status."""

from datetime import datetime

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.alert_events import record_alert_event
from control_domain.tables.deployments import Deployment
from control_domain.tables.notifications import IS_FIRING, AlertEvent, AlertIncident
from control_domain.tables.repositories import Repository
from control_workers.commit_statuses.find_unreported import Unreported

_KIND = "platform.commit_statuses"
_ERROR_LENGTH = 500


async def record_refusal(session: AsyncSession, unreported: Unreported, error: str, now: datetime) -> None:
    """Record that the host refused the commit status of a deployment for good. Record nothing if the repository was
    disconnected meanwhile, because nothing would end the incident then."""
    owner = await _find_owner(session, unreported)
    if owner is None:
        return
    account_id, project_id = owner
    record_alert_event(
        session,
        _KIND,
        _subject(project_id, unreported),
        "firing",
        now,
        account_id=account_id,
        project_id=project_id,
        facts={**_facts(unreported), "error": error[:_ERROR_LENGTH]},
    )


async def record_acceptance(session: AsyncSession, unreported: Unreported, now: datetime) -> None:
    """Record that the host accepted a commit status, if it had refused the previous one of the repository."""
    owner = await _find_owner(session, unreported)
    if owner is None:
        return
    account_id, project_id = owner
    subject = _subject(project_id, unreported)
    if await _is_refusing(session, account_id, subject):
        record_alert_event(
            session,
            _KIND,
            subject,
            "resolved",
            now,
            account_id=account_id,
            project_id=project_id,
            facts=_facts(unreported),
        )


async def _is_refusing(session: AsyncSession, account_id: int, subject: str) -> bool:
    """Return True if the newest event of the repository is a refusal, or if all events are processed and an incident
    is open."""
    newest = (
        select(AlertEvent.state)
        .where(AlertEvent.account_id == account_id, AlertEvent.kind == _KIND, AlertEvent.subject == subject)
        .order_by(AlertEvent.id.desc())
        .limit(1)
    )
    if (state := (await session.execute(newest)).scalar_one_or_none()) is not None:
        return state == "firing"
    incident = select(AlertIncident.id).where(
        AlertIncident.account_id == account_id,
        text(IS_FIRING),
        AlertIncident.kind == _KIND,
        AlertIncident.subject == subject,
    )
    return (await session.execute(incident.limit(1))).first() is not None


async def _find_owner(session: AsyncSession, unreported: Unreported) -> tuple[int, int] | None:
    """Return the account and the project of the deployment. None if the deployment was removed meanwhile, or its
    repository was disconnected."""
    # Needs no account filter: the reporter works for all accounts.
    query = (
        select(Deployment.account_id, Deployment.project_id)
        .join(Repository, Repository.id == Deployment.repository_id)
        .where(Deployment.id == unreported.deployment_id, Repository.disconnected_at.is_(None))
    )
    row = (await session.execute(query)).first()
    return None if row is None else (row[0], row[1])


def _subject(project_id: int, unreported: Unreported) -> str:
    # The repository may be connected to another project later. The people of that project must not receive this event.
    return f"{project_id} {unreported.kind} {unreported.status.repository}"


def _facts(unreported: Unreported) -> dict[str, object]:
    return {
        "host": unreported.kind,
        "repository": unreported.status.repository,
        "deployment": unreported.deployment_id,
        "context": unreported.status.context,
    }
