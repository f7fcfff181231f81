"""Lists, begins and ends silences for people, with audit entries."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import delete, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import Right
from control_domain.audit import Actor, record_audit_entry
from control_domain.database.public_ids import parse_number
from control_domain.notifications.kinds import check_kinds, write_kinds
from control_domain.notifications.limits import MAX_SILENCES, check_number
from control_domain.notifications.visibility import in_projects_of, require_right_at
from control_domain.notifications.wake_groups import wake_groups
from control_domain.paging import Page
from control_domain.slugs import MAX_REASON_LENGTH
from control_domain.tables.accounts import Account, Person
from control_domain.tables.notifications import AlertIncident, NotificationGroup, NotificationSilence
from control_domain.tables.projects import Environment, Project
from pipeline_contracts.errors import Conflict, NotFound, invalid_field

LONGEST_SILENCE = timedelta(days=90)
SHORTEST_SILENCE = timedelta(minutes=1)


class FoundSilence(NamedTuple):
    """A silence with its scope and its author, who is None for a signed link and for a removed person."""

    silence: NotificationSilence
    project: Project | None
    environment: Environment | None
    incident: AlertIncident | None
    person: Person | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSilence:
    """A silence to create: its scope, and how long it lasts."""

    project_id: int | None = None
    environment_id: int | None = None
    kinds: Sequence[str] | None = None
    incident: AlertIncident | None = None
    starts_at: datetime
    ends_at: datetime
    reason: str = ""


def choose_end(
    until: datetime | None, seconds: int | None, begin: datetime, *, field: str = "until"
) -> datetime:
    """Return the end of a silence that begins at `begin`: a given time, or a number of seconds later.

    Raises `InvalidInput` unless exactly one is given.
    """
    if (until is None) == (seconds is None):
        raise invalid_field("seconds", f"must be given unless {field} is given, and not both")
    if until is not None:
        return until
    assert seconds is not None
    return begin + timedelta(seconds=seconds)


def _select_silences(account_id: int) -> Any:
    return (
        select(NotificationSilence, Project, Environment, AlertIncident, Person)
        .outerjoin(Project, Project.id == NotificationSilence.project_id)
        .outerjoin(Environment, Environment.id == NotificationSilence.environment_id)
        .outerjoin(AlertIncident, AlertIncident.id == NotificationSilence.incident_id)
        .outerjoin(Person, Person.id == NotificationSilence.person_id)
        .where(NotificationSilence.account_id == account_id)
    )


async def find_silence(session: AsyncSession, caller: Caller, number: str, right: Right) -> FoundSilence:
    """Return the silence with this number. Only people who manage the account get a silence of the whole account.

    Raises `NotFound`, also for a silence of another account, `DeployNotAllowed` and `NotAllowed`.
    """
    query = _select_silences(caller.account.id).where(NotificationSilence.id == (parse_number(number) or 0))
    row = (await session.execute(query)).one_or_none()
    if row is None:
        raise NotFound("The account has no such silence.")
    found = FoundSilence(*row)
    await require_right_at(session, caller, found.silence.project_id, right)
    return found


async def list_silences(
    session: AsyncSession, caller: Caller, project: Project | None, now: datetime, page: Page
) -> tuple[Sequence[FoundSilence], bool]:
    """Return a page of the silences that have not ended, the newest first, and whether more follow: those of projects
    that the caller may read, and those of the whole account."""
    table = NotificationSilence
    query = _select_silences(caller.account.id).where(table.ends_at > now)
    for condition in in_projects_of(caller, table.project_id):
        # A silence of a single platform incident would reveal the incident.
        query = query.where(or_(table.project_id.is_(None) & table.incident_id.is_(None), condition))
    if project is not None:
        query = query.where(table.project_id == project.id)
    if page.before is not None:
        query = query.where(table.id < page.before)
    rows = (await session.execute(query.order_by(table.id.desc()).limit(page.limit + 1))).all()
    return [FoundSilence(*row) for row in rows[: page.limit]], len(rows) > page.limit


async def add_silence(
    session: AsyncSession, account: Account, new: NewSilence, actor: Actor, now: datetime
) -> NotificationSilence:
    """Begin a silence. The caller has checked the right, and that the environment is of the project.

    Raises `InvalidInput`, and `Conflict` if the account has too many silences.
    """
    kinds, reason = _check(new, now)
    present = select(NotificationSilence).where(
        NotificationSilence.account_id == account.id, NotificationSilence.ends_at > now
    )
    await check_number(session, present, MAX_SILENCES, "silences")
    silence = NotificationSilence(
        account_id=account.id,
        project_id=new.project_id,
        environment_id=new.environment_id,
        kinds=write_kinds(kinds),
        incident_id=None if new.incident is None else new.incident.id,
        starts_at=new.starts_at,
        ends_at=new.ends_at,
        reason=reason,
        person_id=actor.person_id,
        created_at=now,
    )
    session.add(silence)
    await session.flush()
    await _wake(session, silence, now)
    details = {
        "until": new.ends_at.isoformat(),
        "kinds": kinds,
        "reason": reason,
        **({} if new.incident is None else {"incident": new.incident.public_id}),
    }
    _record(session, silence, "create", details, actor, now)
    return silence


async def add_or_extend_silence(
    session: AsyncSession, account: Account, new: NewSilence, actor: Actor, now: datetime
) -> NotificationSilence:
    """Extend the active silence of the same scope by the same person (or by links to channels) if there is one;
    otherwise call `add_silence`. Repeated requests therefore do not use up the account's limit of silences."""
    kinds, reason = _check(new, now)
    table = NotificationSilence
    same = {
        table.account_id: account.id,
        table.project_id: new.project_id,
        table.environment_id: new.environment_id,
        table.kinds: write_kinds(kinds),
        table.incident_id: None if new.incident is None else new.incident.id,
        table.person_id: actor.person_id,
    }
    query = (
        select(table)
        .where(table.starts_at <= now, table.ends_at > now)
        .where(*(column.is_not_distinct_from(value) for column, value in same.items()))
        .order_by(table.ends_at.desc())
        .limit(1)
        .with_for_update()
    )
    present = (await session.execute(query)).scalar_one_or_none()
    if present is None:
        return await add_silence(session, account, new, actor, now)
    changed = {}
    if new.ends_at > present.ends_at:
        present.ends_at = new.ends_at
        changed["until"] = new.ends_at.isoformat()
    if reason and reason != present.reason:
        present.reason = changed["reason"] = reason
    if changed:
        await session.flush()
        await _wake(session, present, now)
        _record(session, present, "set", changed, actor, now)
    return present


def _check(new: NewSilence, now: datetime) -> tuple[list[str] | None, str]:
    """Return the kinds and the reason. Raises `InvalidInput`."""
    kinds = check_kinds(new.kinds)
    if not now - timedelta(minutes=1) <= new.starts_at <= now + LONGEST_SILENCE:
        raise invalid_field("starts_at", "must be now or later, at most 90 days from now")
    if not max(new.starts_at, now) + SHORTEST_SILENCE <= new.ends_at <= now + LONGEST_SILENCE:
        raise invalid_field(
            "ends_at", "must be at least a minute after the beginning, at most 90 days from now"
        )
    reason = new.reason.strip()
    if len(reason) > MAX_REASON_LENGTH or not reason.isprintable():
        raise invalid_field("reason", f"must be at most {MAX_REASON_LENGTH} printable characters")
    return kinds, reason


async def end_silence(session: AsyncSession, found: FoundSilence, actor: Actor, now: datetime) -> None:
    """End the silence now, so that the notifications that it holds are sent. Remove a silence that has not begun.

    Raises `Conflict` if it has ended already.
    """
    silence = found.silence
    if silence.ends_at <= now:
        raise Conflict("The silence has ended already.")
    if silence.starts_at > now:
        await session.execute(
            delete(NotificationSilence).where(
                NotificationSilence.id == silence.id, NotificationSilence.account_id == silence.account_id
            )
        )
    else:
        silence.ends_at = now
        await session.flush()
    await _wake(session, silence, now)
    _record(session, silence, "end", {}, actor, now)


async def _wake(session: AsyncSession, silence: NotificationSilence, now: datetime) -> None:
    conditions = []
    if silence.project_id is not None:
        conditions.append(NotificationGroup.project_id == silence.project_id)
    if silence.environment_id is not None:
        conditions.append(NotificationGroup.environment_id == silence.environment_id)
    await wake_groups(session, silence.account_id, now, *conditions)


def _record(
    session: AsyncSession,
    silence: NotificationSilence,
    verb: str,
    details: dict[str, Any],
    actor: Actor,
    now: datetime,
) -> None:
    record_audit_entry(
        session, actor, silence.account_id, f"silence.{verb}", f"silence {silence.id}", now, details
    )
