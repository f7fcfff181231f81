"""Finds and lists incidents for people."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import Right
from control_domain.database.public_ids import matches_id
from control_domain.notifications.kinds import TEST_KIND
from control_domain.notifications.visibility import in_projects_of, require_right_at
from control_domain.paging import Page
from control_domain.tables.accounts import Account, Person
from control_domain.tables.notifications import AlertIncident
from control_domain.tables.projects import Environment, Project
from pipeline_contracts.errors import NotFound

StateFilter = Literal["firing", "resolved", "info", "acknowledged"]


class FoundIncident(NamedTuple):
    """An incident with the person who acknowledged it, and with its project and environment, which are None for
    incidents of the platform and after their removal."""

    incident: AlertIncident
    project: Project | None
    environment: Environment | None
    acknowledged_by: Person | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentFilters:
    """Conditions on the listed incidents; None matches every incident."""

    state: StateFilter | None = None
    project: Project | None = None
    environment: Environment | None = None
    kind: str | None = None
    """A kind or a family."""
    subject: str | None = None
    """The subject of its events, unique within environment and family, such as the number of a heartbeat."""


def _select_incidents(account_id: int) -> Any:
    return (
        select(AlertIncident, Project, Environment, Person)
        .outerjoin(Project, Project.id == AlertIncident.project_id)
        .outerjoin(Environment, Environment.id == AlertIncident.environment_id)
        .outerjoin(Person, Person.id == AlertIncident.acknowledged_by_id)
        .where(AlertIncident.account_id == account_id)
    )


async def find_incident(
    session: AsyncSession, caller: Caller, number_or_id: str, right: Right
) -> FoundIncident:
    """Return the incident with this number or public ID.

    Raises `NotFound`, also for an incident of another account, `DeployNotAllowed`, and `NotAllowed` for one of the
    platform unless the caller manages the account.
    """
    is_wanted = matches_id(AlertIncident.id, AlertIncident.public_id, number_or_id)
    row = (await session.execute(_select_incidents(caller.account.id).where(is_wanted))).one_or_none()
    if row is None:
        raise NotFound("The account has no such incident.")
    found = FoundIncident(*row)
    await require_right_at(session, caller, found.incident.project_id, right)
    return found


async def find_linked_incident(session: AsyncSession, public_id: str) -> tuple[FoundIncident, Account] | None:
    """Return the incident that a checked signature names, and its account."""
    # Account scope: the signature proves that its bearer may see the incident.
    account = await session.scalar(
        select(Account)
        .join(AlertIncident, AlertIncident.account_id == Account.id)
        .where(AlertIncident.public_id == public_id)
    )
    if account is None:
        return None
    query = _select_incidents(account.id).where(AlertIncident.public_id == public_id)
    return FoundIncident(*(await session.execute(query)).one()), account


async def list_incidents(
    session: AsyncSession, caller: Caller, filters: IncidentFilters, page: Page
) -> tuple[Sequence[FoundIncident], bool]:
    """Return a page of the incidents that the caller may see, the newest first, and whether more follow."""
    query = _select_incidents(caller.account.id).where(
        *in_projects_of(caller, AlertIncident.project_id), *_matches(filters)
    )
    if page.before is not None:
        query = query.where(AlertIncident.id < page.before)
    rows = (await session.execute(query.order_by(AlertIncident.id.desc()).limit(page.limit + 1))).all()
    return [FoundIncident(*row) for row in rows[: page.limit]], len(rows) > page.limit


async def count_open(session: AsyncSession, caller: Caller) -> int:
    """Return the number of open incidents that the caller may see."""
    query = select(func.count()).where(
        AlertIncident.account_id == caller.account.id,
        *in_projects_of(caller, AlertIncident.project_id),
        *_matches(IncidentFilters(state="firing")),
    )
    return int((await session.execute(query)).scalar_one())


def _matches(filters: IncidentFilters) -> list[ColumnElement[bool]]:
    table = AlertIncident
    conditions: list[ColumnElement[bool]] = []
    if filters.state in ("firing", "acknowledged"):
        conditions.append(table.open_key.is_not(None))
        is_acknowledged = table.acknowledged_at.is_not(None)
        conditions += [is_acknowledged] if filters.state == "acknowledged" else []
    elif filters.state is not None:
        conditions.append(table.state == filters.state)
    if filters.project is not None:
        conditions.append(table.project_id == filters.project.id)
    if filters.environment is not None:
        conditions.append(table.environment_id == filters.environment.id)
    if filters.subject is not None:
        conditions.append(table.subject == filters.subject)
    if filters.kind is None:
        conditions.append(table.kind != TEST_KIND)
    elif "." in filters.kind:
        conditions.append(table.kind == filters.kind)
    else:
        conditions.append(table.kind.startswith(f"{filters.kind}.", autoescape=True))
    return conditions
