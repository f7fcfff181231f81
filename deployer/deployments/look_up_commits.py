"""Looks up the commits of deployments that wait for approval: the revision, and its subject and author."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from sqlalchemy import ColumnElement, and_, func, or_, select, update
from sqlalchemy.exc import SQLAlchemyError

from control_api.database import Sessions
from control_api.database_clock import database_now
from control_api.deployments.tables import Deployment
from control_api.git_refs import choose_ref
from control_api.projects.tables import Environment
from control_api.repositories.tables import Repository
from deployer.checkout.failures import CheckOutFailed
from deployer.checkout.read_commit import read_commit
from deployer.checkout.resolve_ref import resolve_ref
from deployer.database_guard import DatabaseRefused
from deployer.log_lines.control_characters import remove_controls
from deployer.uncut import end_tasks, uncut
from pipeline_contracts.deploy_states import DeploymentStatus

logger = logging.getLogger(__name__)

MOST_BYTES = 512 * 1024 * 1024
_LOOK_SECONDS, _FAILED_SECONDS = 1.0, 30.0
_TIMEOUT_SECONDS = 60.0
# Longer than two time limits: whoever began a look-up has ended it by then. Doubled with the deployment's age.
_AGAIN_SECONDS = tuple(300.0 * 2**doublings for doublings in range(7))
_SELDOM_SECONDS = 6 * 3600.0
_MOST_AT_ONCE, _MOST_OF_HOST = 4, 2
_PAGE_ROWS = 200
_LONGEST_FAULT = 500
# Between attempts to store the result of a look-up.
_WRITE_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True, slots=True)
class Sought:
    """A commit that is to be looked up."""

    deployment_id: int
    account_id: int
    url: str
    ref: str
    revision: str | None
    tried_at: datetime | None = None
    """When it was last looked up; None: never."""

    @property
    def host(self) -> str:
        """Where the repository is; empty for a folder of this machine."""
        return urlsplit(self.url).hostname or self.url.partition(":")[0]


class CommitLookUps:
    """Looks up commits: one at a time of an account and few of a host, so that a slow one holds up no other account.
    What was never tried goes first, then what was tried longest ago: who fails again and again lets all others by."""

    def __init__(self, sessions: Sessions, holder: str, check: Callable[[], Awaitable[None]]) -> None:
        """`check` raises `DatabaseRefused` for a database in which nothing is to be written."""
        self._sessions = sessions
        self._holder = holder
        self._check = check
        self._is_away = False
        self._running: dict[asyncio.Task[None], Sought] = {}
        self._claimed: dict[int, datetime] = {}
        """When the look-ups that are running were claimed, by deployment."""

    async def run(self) -> None:
        """Look up commits until cancelled. Cancelled look-ups are due again at once."""
        try:
            while True:
                pause = await self._try_to_look()
                await asyncio.sleep(pause)
        finally:
            await end_tasks(*self._running)
            await self._give_back([one for task, one in self._running.items() if task.cancelled()])

    async def _try_to_look(self) -> float:
        """Return for how many seconds to wait before the next look."""
        try:
            await self.look()
            self._is_away = False
        except DatabaseRefused:
            # The deployer itself says why.
            return _LOOK_SECONDS
        except SQLAlchemyError as error:
            if not self._is_away:
                logger.warning("the database cannot be asked which commits to look up: %s", error)
            self._is_away = True
        except Exception:
            # One bad row must not end the look-ups of all others.
            logger.exception("the commits to look up could not be looked at")
            return _FAILED_SECONDS
        return _LOOK_SECONDS

    async def look(self) -> None:
        """Begin what there is room for. Raises `DatabaseRefused`, and what the database raises."""
        self._running = {task: sought for task, sought in self._running.items() if not task.done()}
        self._claimed = {
            one.deployment_id: self._claimed[one.deployment_id] for one in self._running.values()
        }
        if len(self._running) >= _MOST_AT_ONCE:
            return
        page = 0
        while found := await self._find(page):
            # In another database or an older backup nothing is claimed.
            await self._check()
            for sought in found:
                if self._has_room(sought):
                    await self._begin(sought)
            if len(found) < _PAGE_ROWS or len(self._running) >= _MOST_AT_ONCE:
                return
            # Those claimed since are due no more: some rows may be passed over until the next look.
            page += 1

    def _has_room(self, sought: Sought) -> bool:
        busy = self._running.values()
        return (
            len(busy) < _MOST_AT_ONCE
            and sum(one.host == sought.host for one in busy) < _MOST_OF_HOST
            and all(one.account_id != sought.account_id for one in busy)
        )

    async def _find(self, page: int) -> list[Sought]:
        """Those of one page: of each repository the one tried longest ago, or never."""
        order = (Deployment.commit_looked_up_at.asc().nulls_first(), Deployment.id)
        place = func.row_number().over(partition_by=Deployment.repository_id, order_by=order)
        due = select(Deployment.id, place.label("place")).where(*_due()).subquery()
        query = (
            select(
                Deployment.id,
                Deployment.account_id,
                Repository.url,
                Deployment.ref,
                Environment.branch,
                Repository.branch,
                Deployment.revision,
                Deployment.commit_looked_up_at,
            )
            .join(due, due.c.id == Deployment.id)
            .join(Repository, Repository.id == Deployment.repository_id)
            .join(Environment, Environment.id == Deployment.environment_id)
            .where(
                due.c.place == 1,
                Repository.disconnected_at.is_(None),
                Deployment.account_id.not_in([one.account_id for one in self._running.values()]),
            )
            .order_by(*order)
            .offset(page * _PAGE_ROWS)
            .limit(_PAGE_ROWS)
        )
        async with self._sessions() as session:
            rows = (await session.execute(query)).all()
        return [
            Sought(number, of, url, choose_ref(ref, own, branch), revision, tried_at)
            for number, of, url, ref, own, branch, revision, tried_at in rows
        ]

    @uncut
    async def _begin(self, sought: Sought) -> None:
        """Start a task that looks the commit up, unless another deployer has claimed the look-up."""
        claimed_at = await self._claim(sought)
        if claimed_at is not None:
            self._claimed[sought.deployment_id] = claimed_at
            self._running[asyncio.create_task(self._look_up(sought))] = sought

    async def _claim(self, sought: Sought) -> datetime | None:
        """Claim the look-up, and return the time of the claim; None if another deployer has claimed it."""
        async with self._sessions() as session, session.begin():
            claimed = await session.execute(
                update(Deployment)
                .where(Deployment.id == sought.deployment_id, *_due())
                .values(commit_looked_up_at=database_now())
                .returning(Deployment.commit_looked_up_at)
                .execution_options(synchronize_session=False)
            )
            return claimed.scalar_one_or_none()

    @uncut
    async def _give_back(self, cut_short: Sequence[Sought]) -> None:
        """Make the cancelled look-ups due again: nobody can approve a deployment without a commit."""
        try:
            for sought in cut_short:
                await self._check()
                async with self._sessions() as session, session.begin():
                    await session.execute(
                        update(Deployment)
                        .where(
                            Deployment.id == sought.deployment_id,
                            Deployment.commit_looked_up_at == self._claimed[sought.deployment_id],
                        )
                        .values(commit_looked_up_at=sought.tried_at)
                        .execution_options(synchronize_session=False)
                    )
        except (SQLAlchemyError, DatabaseRefused) as error:
            logger.warning("commits whose look-ups were cut short are looked up later: %s", error)

    async def _look_up(self, sought: Sought) -> None:
        revision = sought.revision
        values: dict[str, str | None]
        mark = f"{self._holder}/git/{sought.deployment_id}"
        try:
            if revision is None:
                revision = await resolve_ref(
                    sought.url,
                    sought.ref,
                    mark=mark,
                    timeout_seconds=_TIMEOUT_SECONDS,
                    most_bytes=MOST_BYTES,
                )
            subject, author = await read_commit(
                sought.url, revision, mark=mark, timeout_seconds=_TIMEOUT_SECONDS, most_bytes=MOST_BYTES
            )
            values = {"commit_subject": subject, "commit_author": author, "commit_fault": None}
        except CheckOutFailed as error:
            values = {"commit_fault": remove_controls(str(error))[:_LONGEST_FAULT]}
        except Exception:
            logger.exception("the commit of deployment %d could not be looked up", sought.deployment_id)
            values = {
                "commit_fault": "The deployer failed while it looked the commit up: its own log says why."
            }
        try:
            await self._write_patiently(sought, revision, values)
        except (SQLAlchemyError, DatabaseRefused) as error:
            logger.warning("a commit is looked up again later: %s", error)
        except Exception:
            logger.exception("the commit of deployment %d could not be written", sought.deployment_id)

    async def _write_patiently(
        self, sought: Sought, revision: str | None, values: dict[str, str | None]
    ) -> None:
        """Retry the write while the database is unavailable for a moment: the next look-up is due minutes later."""
        for pause in _WRITE_PAUSES:
            try:
                await self._check()
                return await self._write(sought, revision, values)
            except SQLAlchemyError:
                await asyncio.sleep(pause)
        await self._check()
        await self._write(sought, revision, values)

    async def _write(self, sought: Sought, revision: str | None, values: dict[str, str | None]) -> None:
        is_same = (
            Deployment.revision.is_(None) if sought.revision is None else Deployment.revision == revision
        )
        async with self._sessions() as session, session.begin():
            await session.execute(
                update(Deployment)
                .where(
                    Deployment.id == sought.deployment_id,
                    Deployment.status == DeploymentStatus.AWAITING_APPROVAL,
                    is_same,
                )
                .values(revision=revision, **values)
                .execution_options(synchronize_session=False)
            )


def _due() -> tuple[ColumnElement[bool], ...]:
    began = Deployment.commit_looked_up_at
    return (
        Deployment.status == DeploymentStatus.AWAITING_APPROVAL,
        # Its environment is there still: that one's branch says which commit.
        Deployment.environment_id.is_not(None),
        or_(Deployment.revision.is_(None), Deployment.commit_subject.is_(None)),
        or_(
            began.is_(None),
            # A quarter of its age, roughly: no column counts the tries.
            *(
                and_(Deployment.created_at > database_now(-4 * seconds), began < database_now(-seconds))
                for seconds in _AGAIN_SECONDS
            ),
            began < database_now(-_SELDOM_SECONDS),
        ),
    )
