"""Acknowledges and silences incidents: one, or all open ones of its group."""

from datetime import datetime

from sqlalchemy import ColumnElement, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.notifications.silences import NewSilence, add_or_extend_silence, add_silence
from control_domain.tables.accounts import Account
from control_domain.tables.notifications import AlertIncident, NotificationSilence
from pipeline_contracts.errors import Conflict


async def acknowledge_incident(
    session: AsyncSession, incident: AlertIncident, *, group: bool, actor: Actor, now: datetime
) -> int:
    """Acknowledge the incident, or with `group` all open incidents of its project, environment and family, so that no
    reminders follow. Return the number of newly acknowledged incidents: those that were acknowledged before or have
    ended stay unchanged.

    Raises `Conflict` with `group` for an incident that has ended: the caller has not seen the incidents that are open
    now.
    """
    if group and incident.open_key is None:
        raise Conflict("The incident has ended already. Acknowledge an open incident instead.")
    acknowledged = await session.execute(
        update(AlertIncident)
        .where(
            AlertIncident.account_id == incident.account_id,
            AlertIncident.open_key.is_not(None),
            AlertIncident.acknowledged_at.is_(None),
            *(_of_group(incident) if group else (AlertIncident.id == incident.id,)),
        )
        .values(acknowledged_at=now, acknowledged_by_id=actor.person_id)
        .execution_options(synchronize_session=False)
    )
    count: int = acknowledged.rowcount  # type: ignore[attr-defined]
    await session.refresh(incident)
    if count:
        subject = f"incident {incident.public_id}"
        details = {"kind": incident.kind, "incidents": count}
        record_audit_entry(session, actor, incident.account_id, "incident.acknowledge", subject, now, details)
    return count


async def silence_incident(
    session: AsyncSession,
    account: Account,
    incident: AlertIncident,
    ends_at: datetime,
    reason: str,
    *,
    group: bool,
    extends: bool = False,
    actor: Actor,
    now: datetime,
) -> NotificationSilence:
    """Silence the incident, or with `group` everything of its project, environment and family, until `ends_at`.
    With `extends`, extend an active silence of the same scope by the same person instead.

    Raises `InvalidInput`, and `Conflict` for an incident that has ended.
    """
    if incident.open_key is None:
        raise Conflict("The incident has ended already. Silence the kind in the environment instead.")
    add = add_or_extend_silence if extends else add_silence
    return await add(
        session,
        account,
        NewSilence(
            project_id=incident.project_id,
            environment_id=incident.environment_id,
            kinds=[_family(incident)] if group else None,
            incident=None if group else incident,
            starts_at=now,
            ends_at=ends_at,
            reason=reason,
        ),
        actor,
        now,
    )


def _of_group(incident: AlertIncident) -> tuple[ColumnElement[bool], ...]:
    table = AlertIncident
    return (
        table.project_id.is_not_distinct_from(incident.project_id),
        table.environment_id.is_not_distinct_from(incident.environment_id),
        table.kind.startswith(f"{_family(incident)}.", autoescape=True),
    )


def _family(incident: AlertIncident) -> str:
    return incident.kind.partition(".")[0]
