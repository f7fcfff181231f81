"""Operations on projects, their roles, environments and ingest keys."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.statements import lock_row
from control_domain.keys import is_live, make_key_entry
from control_domain.projects.limits import check_number_of_environments, check_number_of_projects
from control_domain.tables.accounts import Account, Person
from control_domain.tables.projects import Environment, IngestKey, Project, ProjectRole
from pipeline_contracts.credentials import CredentialKind, digest_credential, make_credential
from pipeline_contracts.errors import NotFound
from pipeline_contracts.identifiers import make_identifier
from pipeline_contracts.times import to_epoch_ms
from storage_backends.key_directory.interface import KeyEntry

POSITIONS = {"preview": 0, "development": 1, "staging": 2, "production": 3}
"""The position of each type of environment. Deployments are promoted to higher positions."""


async def create_project(
    session: AsyncSession, account: Account, name: str, slug: str, now: datetime
) -> Project:
    """Create a project without environments. Raises `Conflict` if the account has too many projects."""
    await check_number_of_projects(session, account)
    project = Project(
        public_id=make_identifier("prj", to_epoch_ms(now)),
        account_id=account.id,
        name=name,
        slug=slug,
        created_at=now,
    )
    session.add(project)
    await session.flush()
    return project


async def grant_role(session: AsyncSession, project: Project, person: Person, role: str) -> str | None:
    """Set the role of the person in the project and return the former role, or None without one."""
    present = await session.get(ProjectRole, (project.id, person.id))
    former = None if present is None else present.role
    if present is None:
        session.add(ProjectRole(project_id=project.id, person_id=person.id, role=role))
    else:
        present.role = role
    await session.flush()
    return former


async def revoke_role(session: AsyncSession, project: Project, person: Person) -> str | None:
    """Remove the role of the person in the project and return it, or None without one."""
    is_theirs = (ProjectRole.project_id == project.id) & (ProjectRole.person_id == person.id)
    removed = await session.execute(delete(ProjectRole).where(is_theirs).returning(ProjectRole.role))
    return removed.scalar_one_or_none()


async def create_environment(
    session: AsyncSession, project: Project, name: str, slug: str, type_: str, now: datetime
) -> Environment:
    """Create an environment at the position of its type. Raises `Conflict` if the project has too many."""
    await check_number_of_environments(session, project, type_)
    environment = Environment(
        public_id=make_identifier("env", to_epoch_ms(now)),
        project_id=project.id,
        name=name,
        slug=slug,
        type=type_,
        position=POSITIONS[type_],
        created_at=now,
    )
    session.add(environment)
    await session.flush()
    return environment


async def create_ingest_key(session: AsyncSession, environment: Environment, now: datetime) -> str:
    """Create an ingest key and return its secret, which is not stored."""
    secret = make_credential(CredentialKind.INGEST_KEY)
    session.add(IngestKey(environment_id=environment.id, digest=digest_credential(secret), created_at=now))
    await session.flush()
    return secret


UNKNOWN_KEY = "This key is not known, has expired, or was revoked."
"""The response to a key that is not valid."""


@dataclass(frozen=True, slots=True)
class KeyEnvironment:
    """The environment that an ingest key belongs to."""

    public_id: str
    account_id: int


async def find_environment_by_key(
    session: AsyncSession, digest: bytes, now: datetime
) -> KeyEnvironment | None:
    """Return the environment that a key belongs to, or None if the key is unknown, expired or revoked."""
    # Account scope: the key identifies the account.
    row = (
        await session.execute(
            select(IngestKey, Environment.public_id, Project.account_id)
            .join(Environment, Environment.id == IngestKey.environment_id)
            .join(Project, Project.id == Environment.project_id)
            .where(IngestKey.digest == digest)
        )
    ).one_or_none()
    if row is None or not is_live(row[0], now):
        return None
    return KeyEnvironment(public_id=row[1], account_id=row[2])


async def live_ingest_keys(
    session: AsyncSession,
    now: datetime,
    digests: Collection[bytes] | None = None,
    *,
    account_id: int | None = None,
) -> Sequence[KeyEntry]:
    """Return the directory entries of all live ingest keys, or only of those with these digests or of one account."""
    # Account scope: the edges need the keys of every account.
    query = (
        select(IngestKey, Environment.public_id, Project.public_id, Account)
        .join(Environment, Environment.id == IngestKey.environment_id)
        .join(Project, Project.id == Environment.project_id)
        .join(Account, Account.id == Project.account_id)
        .where(IngestKey.revoked_at.is_(None))
    )
    if digests is not None:
        query = query.where(IngestKey.digest.in_(digests))
    if account_id is not None:
        query = query.where(Account.id == account_id)
    return [
        make_key_entry(key, CredentialKind.INGEST_KEY, account, project_id, environment_id)
        for key, environment_id, project_id, account in await session.execute(query)
        if is_live(key, now)
    ]


async def lock_project_row(session: AsyncSession, project: Project) -> None:
    """Lock the project until the end of the transaction, against renames, workflows, configuration runs and removal.

    Raises `NotFound` if the project was removed meanwhile.
    """
    if not await lock_row(session, Project.name, Project.id == project.id):
        raise NotFound("The account has no such project.")
