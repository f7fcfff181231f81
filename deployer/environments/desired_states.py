"""Reads the desired states of environments from the database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.clock import database_now
from control_domain.database.engine import Sessions
from control_domain.database.statements import use_snapshot
from control_domain.tables.accounts import Account
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from control_domain.tables.projects import Environment, Project
from control_domain.tables.runtime import EnvironmentLease
from deployer.drivers.interface import Retained, Tenancy
from deployer.leases import Check, is_run_elsewhere
from deployer.shield import shielded
from pipeline_contracts.deploy_states import ACTIVE_STATUSES, EnvironmentState

_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Hostnames:
    """Makes host names of the form `production.shop.<domain>`, and their URLs with the port."""

    domain: str
    port: int

    def hosts(self, environment: str, project: str, account: str, *, has_short_name: bool) -> Sequence[str]:
        """Return the hosts of an environment, the preferred one first. Two accounts may have projects with the same
        slug: the oldest of these projects also has the short host name, without the account."""
        name = f"{environment}.{project}"
        full = f"{name}.{account}.{self.domain}"
        return [f"{name}.{self.domain}", full] if has_short_name else [full]

    def address(self, host: str) -> str:
        """Return the URL of a host, with the scheme and the port."""
        scheme = "https" if self.port == _DEFAULT_PORTS["https"] else "http"
        return f"{scheme}://{host}" + ("" if self.port == _DEFAULT_PORTS[scheme] else f":{self.port}")


@dataclass(frozen=True, slots=True)
class ServedRelease:
    """The release that an environment serves, and the deployment that made it live."""

    release_id: int
    deployment_id: int
    artefact: str
    variables_id: int | None
    workflow: str
    revision: str


@dataclass(frozen=True, slots=True)
class DesiredState:
    """What an environment should run, and its active deployment."""

    tenancy: Tenancy
    replicas: int
    """The number of `web` instances. 0: the environment hibernates."""
    wakes: bool
    """True if a request wakes the environment when it hibernates."""
    live: ServedRelease | None
    deployment_id: int | None
    """The ID of the active deployment. None if there is none."""

    @property
    def name(self) -> str:
        """The name of the environment in log lines."""
        return self.tenancy.hosts[0].rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class DesiredStates:
    """The desired states of environments by ID, and the IDs of the environments that other deployers have leased."""

    by_environment: Mapping[int, DesiredState]
    leased_elsewhere: frozenset[int]


@shielded
async def read_desired_states(
    sessions: Sessions,
    holder: str,
    names: Hostnames,
    environment_id: int | None = None,
    check: Check | None = None,
) -> DesiredStates:
    """Return the desired state of all environments, or only of `environment_id`. For an environment that another
    deployer has leased, the result has only its ID.

    Calls `check` in the same transaction, because a restore of the database may begin at any time. Raises the errors
    of `check`.
    """
    query = _QUERY if environment_id is None else _QUERY.where(Environment.id == environment_id)
    async with sessions() as session:
        if check is not None:
            await use_snapshot(session)
            await check(session)
        rows = (await session.execute(query)).all()
    elsewhere = {row.id for row in rows if row.holder not in (None, holder) and row.is_leased}
    return DesiredStates(
        {row.id: _desired(row, names) for row in rows if row.id not in elsewhere}, frozenset(elsewhere)
    )


def _query() -> Select[*tuple[Any, ...]]:
    first_of_slug = select(func.min(Project.id).label("id")).group_by(Project.slug).subquery()
    return (
        select(
            Environment.id,
            Environment.public_id,
            Environment.slug,
            Environment.project_id,
            Environment.state,
            Environment.desired_replicas,
            Environment.wake_on_request,
            Project.slug.label("project_slug"),
            Account.slug.label("account_slug"),
            first_of_slug.c.id.is_not(None).label("has_short_name"),
            LiveRelease.release_id,
            func.coalesce(LiveRelease.deployment_id, Release.deployment_id).label("live_deployment_id"),
            Release.artefact,
            Release.variables_id,
            Release.workflow,
            Release.revision,
            Deployment.id.label("deployment_id"),
            EnvironmentLease.holder,
            (EnvironmentLease.leased_until > database_now()).label("is_leased"),
        )
        .join(Project, Project.id == Environment.project_id)
        .join(Account, Account.id == Project.account_id)
        .outerjoin(first_of_slug, first_of_slug.c.id == Project.id)
        .outerjoin(LiveRelease, LiveRelease.environment_id == Environment.id)
        .outerjoin(Release, Release.id == LiveRelease.release_id)
        .outerjoin(
            Deployment, (Deployment.environment_id == Environment.id) & Deployment.status.in_(ACTIVE_STATUSES)
        )
        .outerjoin(EnvironmentLease, EnvironmentLease.environment_id == Environment.id)
        .where(or_(LiveRelease.release_id.is_not(None), Deployment.id.is_not(None)))
        .order_by(Environment.id)
    )


_QUERY = _query()


def _desired(row: Any, names: Hostnames) -> DesiredState:
    live = None
    if row.release_id is not None:
        live = ServedRelease(
            row.release_id,
            row.live_deployment_id,
            row.artefact,
            row.variables_id,
            row.workflow,
            row.revision,
        )
    slugs = (row.slug, row.project_slug, row.account_slug)
    hosts = tuple(names.hosts(*slugs, has_short_name=row.has_short_name))
    return DesiredState(
        Tenancy(row.id, row.project_id, row.public_id, hosts, names.address(hosts[0])),
        row.desired_replicas if row.state == EnvironmentState.RUNNING else 0,
        row.wake_on_request,
        live,
        row.deployment_id,
    )


@shielded
async def read_retained(
    sessions: Sessions, holder: str | None = None, check: Check | None = None
) -> Retained:
    """Return the objects that a sweep must not remove. With `holder`, the result also has the environments that other
    deployers run.

    `check`: as for `read_desired_states`.
    """
    async with sessions() as session:
        await use_snapshot(session)
        if check is not None:
            await check(session)
        active = select(Deployment).where(Deployment.status.in_(ACTIVE_STATUSES))
        deployments = (await session.execute(active)).scalars().all()
        repeated = await _find_repeated(session, deployments)
        known = await session.execute(select(Environment.id, Environment.public_id))
        environments = {row.id: row.public_id for row in known}
        live = select(LiveRelease.release_id)
        is_retained = or_(
            Release.removed_at.is_(None), Release.id.in_(live), Release.deployment_id.in_(repeated)
        )
        artefacts = set((await session.execute(select(Release.artefact).where(is_retained))).scalars())
        moved: set[int] = set()
        if holder is not None:
            query = select(EnvironmentLease.environment_id).where(is_run_elsewhere(holder))
            moved = set((await session.execute(query)).scalars())
    return Retained(environments, artefacts, {deployment.id for deployment in deployments}, moved)


async def _find_repeated(session: AsyncSession, active: Sequence[Deployment]) -> set[int]:
    """Return the deployments whose releases the active rollbacks and promotions repeat. A rollback has no release of
    its own: its release belongs to the deployment that it repeats."""
    sources = {
        number
        for deployment in active
        for number in (deployment.rolled_back_to_id, deployment.promoted_from_id)
        if number
    }
    repeated_by_rollbacks = select(Deployment.rolled_back_to_id).where(
        Deployment.id.in_(sources), Deployment.rolled_back_to_id.is_not(None)
    )
    return sources | {
        number for number in (await session.execute(repeated_by_rollbacks)).scalars() if number is not None
    }
