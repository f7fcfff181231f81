"""Refuses to work on a database other than the one whose applications run here.

An empty database, another database and an older backup do not know the running applications: a deployer that followed
such a database would end all applications. It stores the state of its database in `database.json`, and does nothing
while the database contradicts it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import exists, func, literal_column, or_, select
from sqlalchemy.exc import ProgrammingError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.engine import Sessions
from control_domain.database.errors import is_schema_outdated
from control_domain.database.migrations.upgrade import newest_revision
from control_domain.tables.audit import AuditEntry
from control_domain.tables.deployments import Deployment, LiveRelease
from control_domain.tables.projects import Environment, Project
from control_domain.tables.runtime import DatabaseToken
from deployer.database_memory import ACCEPT, FILE, DatabaseMemory, DatabaseRefused, Remembered
from deployer.drivers.interface import LastLive, Traces
from deployer.environments.desired_states import DesiredStates
from deployer.shield import shielded

_LEFT_ALONE = "What runs is left as it is, and nothing is deployed."
_ACCEPT = (
    f"To accept this database and end what it does not know, stop the deployer, write `{ACCEPT}` into {FILE} in its "
    "folder and start it again."
)
_BATCH_ROWS = 500


class DatabaseGuard:
    """Compares the database with what the deployer remembers of it."""

    def __init__(self, sessions: Sessions, folder: Path, read_traces: Callable[[], Traces]) -> None:
        """`read_traces`: see `Handover`. It is called if the folder has no `database.json`."""
        self._sessions = sessions
        self._known_revision = newest_revision()
        self._memory = DatabaseMemory(folder, read_traces)

    @property
    def last_live(self) -> Mapping[int, LastLive]:
        """The live deployments by environment at the last read of the database."""
        return {} if self._memory.known is None else self._memory.known.live

    @property
    def last_moved(self) -> Mapping[int, LastLive]:
        """The releases that were live on this deployer, by environment, for environments that another deployer has
        taken over since."""
        return {} if self._memory.known is None else self._memory.known.moved

    async def close(self) -> None:
        """Wait until the file is written, or the write has failed."""
        await self._memory.close()

    @shielded
    async def check(self, environment_id: int | None = None) -> None:
        """Raise `DatabaseRefused` if this is not the deployer's database. With `environment_id`, also raise it if that
        environment has lost its live release. Raises database errors."""
        async with self._sessions() as session:
            await self.check_in(session, environment_id)

    async def check_in(self, session: AsyncSession, environment_id: int | None = None) -> None:
        """Like `check`, but within the transaction of this session."""
        if self._memory.damage is not None:
            raise DatabaseRefused(_describe_damage(self._memory.damage))
        # Copy the remembered state before the first query: the session may see a snapshot that is older than states
        # remembered meanwhile.
        before = self._memory.known
        try:
            known = await self._compare(session, before)
            if environment_id is not None:
                await self._check_lost(session, {environment_id}, known.live)
        except SQLAlchemyError as error:
            if (
                "no such table" in str(error)
                or isinstance(error, ProgrammingError)
                and is_schema_outdated(error)
            ):
                raise DatabaseRefused(
                    "The database does not have the tables of this version: run `pharos migrate`, or correct "
                    f"PHAROS_DATABASE_URL. {_LEFT_ALONE}"
                ) from error
            raise
        # A comparison that began earlier may end later, and must not overwrite a newer state.
        if self._memory.known is before:
            self._memory.remember(known)

    async def _compare(self, session: AsyncSession, known: Remembered | None) -> Remembered:
        """Return the state of the database that the deployer remembers from now on."""
        facts = (await session.execute(_FACTS)).one()
        if facts.revision is not None and facts.revision > self._known_revision:
            raise DatabaseRefused(
                f"A newer version of Pharos has upgraded the database to revision {facts.revision}; this version knows "
                f"revisions up to {self._known_revision}. {_LEFT_ALONE} Start the newer version of the deployer."
            )
        if facts.token is None or (known is not None and known.token != facts.token):
            raise DatabaseRefused(
                f"The database is not the one whose applications run here: its token is another one. {_LEFT_ALONE} "
                f"Correct PHAROS_DATABASE_URL, or restore the database. {_ACCEPT}"
            )
        if known is None:
            if self._memory.traces is not None and not self._memory.is_accepting:
                await self._check_traces(session, self._memory.traces)
            known = Remembered(facts.token)
        known = await self._check_newest(session, known, facts.newest or 0)
        had = [live.public_id for live in known.live.values()]
        if had and not facts.has_environments and await _not_removed(session, "environment", had):
            raise DatabaseRefused(
                f"The database has no environments any more, and {len(known.live)} had a live release. {_LEFT_ALONE} "
                f"Wait for a restore that is in progress, or restore the database. {_ACCEPT}"
            )
        return known

    async def _check_newest(self, session: AsyncSession, known: Remembered, newest: int) -> Remembered:
        """Return `known` with the newest deployment replaced by this one. Raises `DatabaseRefused` if the database no
        longer has the deployment that was newest before."""
        query = (
            select(Deployment.id, Deployment.created_at, Project.public_id)
            .outerjoin(Project, Project.id == Deployment.project_id)
            .where(Deployment.id.in_([known.newest, newest]))
        )
        found = {
            row.id: (row.created_at.isoformat(), row.public_id or "") for row in await session.execute(query)
        }
        created_at, _ = found.get(known.newest, ("", ""))
        if created_at != known.newest_at and (
            created_at or await _not_removed(session, "project", [known.newest_project])
        ):
            raise DatabaseRefused(
                f"The database is older than what runs here, such as a restored backup: it does not have deployment "
                f"{known.newest}. {_LEFT_ALONE} Restore a newer backup. {_ACCEPT} Then deploy each application again "
                "whose newest release the database does not know."
            )
        newest_at, project = found.get(newest, ("", ""))
        return replace(known, newest=newest, newest_at=newest_at, newest_project=project)

    async def _check_traces(self, session: AsyncSession, traces: Traces) -> None:
        """If `database.json` is missing, compare the database with the environments and artefacts in the deployer's
        folder. Raises `DatabaseRefused`."""
        environments, newest = traces.environments, traces.newest_deployment
        missing = set(environments)
        for first in range(0, len(environments), _BATCH_ROWS):
            batch = environments[first : first + _BATCH_ROWS]
            query = select(Environment.public_id).where(Environment.public_id.in_(batch))
            missing.difference_update((await session.execute(query)).scalars())
        lost = await _not_removed(session, "environment", sorted(missing))
        if lost:
            raise DatabaseRefused(
                f"The database does not know {len(lost)} of the {len(environments)} environments that have a home "
                f"in the deployer's folder, such as {min(lost)}, and {FILE} is not there to compare it with. "
                f"{_LEFT_ALONE} Correct PHAROS_DATABASE_URL, or restore the database. {_ACCEPT}"
            )
        # Deployments are deleted only together with their project, and the project of a missing deployment is unknown.
        removed = exists(select(AuditEntry.id).where(AuditEntry.action == "project.remove"))
        known = exists(select(Deployment.id).where(Deployment.id == newest))
        if newest and not (await session.execute(select(or_(known, removed)))).scalar_one():
            raise DatabaseRefused(
                f"The database does not have deployment {newest}, which has an artefact in the deployer's folder, and "
                f"{FILE} is not there to compare it with. {_LEFT_ALONE} Correct PHAROS_DATABASE_URL, or restore a "
                f"newer backup. {_ACCEPT}"
            )

    async def remember_live(self, states: DesiredStates) -> None:
        """Remember the live deployments. Raises `DatabaseRefused` if an environment that still exists has lost its live
        release."""
        live = list_live(states)
        vanished = self.last_live.keys() - live.keys() - states.leased_elsewhere
        if vanished:
            async with self._sessions() as session:
                await self._check_lost(session, vanished, self.last_live)
        if self._memory.known is not None:
            before = {**self.last_moved, **self.last_live}
            moved = {number: last for number, last in before.items() if number in states.leased_elsewhere}
            self._memory.remember(replace(self._memory.known, live=live, moved=moved))

    async def _check_lost(
        self, session: AsyncSession, numbers: set[int], live: Mapping[int, LastLive]
    ) -> None:
        had = sorted(numbers & live.keys())
        for first in range(0, len(had), _BATCH_ROWS):
            batch = had[first : first + _BATCH_ROWS]
            query = (
                select(Environment.id, LiveRelease.release_id)
                .outerjoin(LiveRelease, LiveRelease.environment_id == Environment.id)
                .where(Environment.id.in_(batch))
            )
            found = {row.id: row.release_id for row in await session.execute(query)}
            missing = [live[number].public_id for number in batch if number not in found]
            lost = list(found.values()).count(None) + len(await _not_removed(session, "environment", missing))
            if lost:
                count = "1 environment" if lost == 1 else f"{lost} environments"
                raise DatabaseRefused(
                    f"The database has lost the live releases of {count}. {_LEFT_ALONE} Wait for a "
                    f"restore that is in progress, or restore the database. {_ACCEPT}"
                )


def _describe_damage(damage: str) -> str:
    return (
        f"{FILE} in the deployer's folder {damage}. {_LEFT_ALONE} What does not run is not started either. If "
        f"PHAROS_DATABASE_URL names the database whose applications run here, and it is no older backup, stop the "
        f"deployer, remove {FILE} from its folder and start it again."
    )


def list_live(states: DesiredStates) -> Mapping[int, LastLive]:
    """Return the live deployments by environment, without environments of other deployers."""
    return {
        number: LastLive(
            desired.tenancy.public_id,
            desired.live.deployment_id,
            desired.tenancy.hosts if desired.replicas > 0 else (),
        )
        for number, desired in states.by_environment.items()
        if desired.live is not None
    }


async def _not_removed(session: AsyncSession, kind: str, public_ids: Sequence[str]) -> set[str]:
    """Return those of the IDs whose removal is not in the audit log. The audit log never loses entries, but an older
    backup or a restore in progress lacks the newest ones."""
    remaining = set(public_ids)
    for first in range(0, len(public_ids), _BATCH_ROWS):
        subjects = [f"{kind} {public_id}" for public_id in public_ids[first : first + _BATCH_ROWS]]
        query = select(AuditEntry.subject).where(
            AuditEntry.action == f"{kind}.remove", AuditEntry.subject.in_(subjects)
        )
        remaining -= {subject.partition(" ")[2] for subject in (await session.execute(query)).scalars()}
    return remaining


def _facts() -> Any:
    return select(
        select(DatabaseToken.token).limit(1).scalar_subquery().label("token"),
        select(func.max(Deployment.id)).scalar_subquery().label("newest"),
        exists(select(Environment.id)).label("has_environments"),
        literal_column("(SELECT max(version_num) FROM alembic_version)").label("revision"),
    )


_FACTS = _facts()
