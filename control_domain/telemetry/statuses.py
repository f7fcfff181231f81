"""The status and the assignee of groups of exceptions, which people set."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from msgspec import UNSET, UnsetType
from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.describe import PersonSummary, summarize_person
from control_domain.accounts.members import find_member
from control_domain.alert_events import record_alert_event
from control_domain.audit import Actor, record_audit_entry
from control_domain.database.errors import BrokenReference
from control_domain.database.statements import insert_if_absent, lock_row
from control_domain.projects.find import DeployTarget
from control_domain.tables.accounts import Account, Membership, Person
from control_domain.tables.exceptions import ExceptionStatus
from control_domain.tables.projects import Environment
from pipeline_contracts.errors import Conflict, NotFound, invalid_field

Status = Literal["open", "resolved", "ignored"]
MAX_STATUSES = 5000
"""Limit of groups with a status or an assignee in an environment, because reads send their IDs to the column store."""


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """The decisions about a group."""

    status: Status = "open"
    resolved_at: datetime | None = None
    assignee: PersonSummary | None = None
    """None without an assignee, and for a former member."""


OPEN = GroupStatus()


async def read_statuses(
    session: AsyncSession, account: Account, environment: Environment, groups: Collection[str] | None = None
) -> Mapping[str, GroupStatus]:
    """Return the decisions about groups of the environment by their IDs; groups without decisions are left out."""
    query = (
        select(ExceptionStatus, Person)
        .outerjoin(
            Membership,
            (Membership.person_id == ExceptionStatus.assignee_id) & (Membership.account_id == account.id),
        )
        .outerjoin(Person, Person.id == Membership.person_id)
        .where(ExceptionStatus.environment_id == environment.id)
    )
    if groups is not None:
        query = query.where(ExceptionStatus.group_id.in_(groups))
    return {row.group_id: _to_status(row, person) for row, person in await session.execute(query)}


def _to_status(row: ExceptionStatus, person: Person | None) -> GroupStatus:
    status: Status = (
        "resolved" if row.status == "resolved" else "ignored" if row.status == "ignored" else "open"
    )
    return GroupStatus(status, row.resolved_at, None if person is None else summarize_person(person))


async def count_statuses(session: AsyncSession, environment: Environment) -> int:
    """Return the number of groups of the environment that have a status or an assignee."""
    query = select(func.count()).where(ExceptionStatus.environment_id == environment.id)
    return (await session.execute(query)).scalar_one()


async def lock_status(
    session: AsyncSession, target: DeployTarget, group: str, now: datetime
) -> ExceptionStatus:
    """Return the row of the group, locked until the end of the transaction; create the row of an open group if there
    is none.

    Raises `NotFound` if the environment was removed meanwhile.
    """
    values = {
        "environment_id": target.environment.id,
        "group_id": group,
        "status": "open",
        "assignee_id": None,
        "resolved_at": None,
        "changed_at": now,
    }
    is_group = (
        ExceptionStatus.environment_id == target.environment.id,
        ExceptionStatus.group_id == group,
    )
    is_locked = False
    while not is_locked:
        try:
            await session.execute(insert_if_absent(session, ExceptionStatus, values))
        except BrokenReference:
            raise NotFound("The account has no such environment.") from None
        # On Postgres this is False if the transaction that held the lock has removed the row.
        is_locked = await lock_row(session, ExceptionStatus.changed_at, *is_group)
    return (await session.execute(select(ExceptionStatus).where(*is_group))).scalar_one()


async def find_assignee(session: AsyncSession, account: Account, number_or_id: str) -> Person:
    """Return the member of the account with this number or public ID. Raises `InvalidInput` for anybody else."""
    try:
        return (await find_member(session, account, number_or_id)).person
    except NotFound:
        raise invalid_field("assignee", "must be the ID of a person in the account") from None


async def change_status(
    session: AsyncSession,
    target: DeployTarget,
    row: ExceptionStatus,
    *,
    status: Status | None,
    shown_status: Status,
    assignee: Person | None | UnsetType,
    actor: Actor,
    now: datetime,
) -> None:
    """Set the status and the assignee of a locked row; None and UNSET leave a value unchanged. `shown_status` is the
    status that people see: a resolved group that has regressed is open.

    Removes a row that only has default values. Records an audit entry if something changes.
    """
    changes: dict[str, str | None] = {}
    if status is not None and status != shown_status:
        changes["status"] = status
        if status != "open":
            _end_incidents(session, target, row.group_id, status, now)
        row.status = status
        row.resolved_at = now if status == "resolved" else None
    if assignee is not UNSET and row.assignee_id != (assignee.id if assignee is not None else None):
        changes["assignee"] = assignee.public_id if assignee is not None else None
        row.assignee_id = assignee.id if assignee is not None else None
    if changes:
        row.changed_at = now
        details = {"environment": target.environment.public_id, **changes}
        subject = f"exception {row.group_id}"
        record_audit_entry(session, actor, target.project.account_id, "exception.set", subject, now, details)
    if row.status == "open" and row.assignee_id is None:
        await session.delete(row)
    await session.flush()


def _end_incidents(
    session: AsyncSession, target: DeployTarget, group: str, status: Status, now: datetime
) -> None:
    for kind, subject in (("exception.new", group), ("exception.spike", f"spike {group}")):
        record_alert_event(
            session,
            kind,
            subject,
            "resolved",
            now,
            account_id=target.project.account_id,
            project_id=target.project.id,
            environment_id=target.environment.id,
            facts={"reason": status},
        )


async def forget_statuses(
    session: AsyncSession, environment: Environment, groups: Sequence[str], before: datetime
) -> None:
    """Remove the rows of groups whose exceptions are no longer stored, unless somebody has changed them since
    `before`.

    Raises `Conflict` if too many are left.
    """
    for first in range(0, len(groups), 500):
        await session.execute(
            delete(ExceptionStatus)
            .where(
                ExceptionStatus.environment_id == environment.id,
                ExceptionStatus.group_id.in_(groups[first : first + 500]),
                ExceptionStatus.changed_at < before,
            )
            .execution_options(synchronize_session=False)
        )
    if await count_statuses(session, environment) >= MAX_STATUSES:
        raise Conflict(
            f"{MAX_STATUSES:,} groups of this environment have a status or an assignee. Open some of them again first."
        )
