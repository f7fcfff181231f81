"""Looks up the commits of deployments that await approval: the revision, its subject and author, and how it differs
from the live release."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import (
    ColumnElement,
    Integer,
    ScalarSelect,
    Select,
    and_,
    bindparam,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.exc import SQLAlchemyError

from control_domain.database.changes import Changes
from control_domain.database.clock import database_now
from control_domain.database.engine import Sessions
from control_domain.deployments.new_commits import describe_fault, encode_new_commits
from control_domain.repositories.operations import choose_ref
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from control_domain.tables.projects import Environment
from control_domain.tables.repositories import Repository
from deployer.checkout.compare_commits import compare_commits
from deployer.checkout.failures import CheckOutFailed
from deployer.checkout.read_commit import read_commit
from deployer.checkout.resolve_ref import resolve_ref
from deployer.database_memory import DatabaseRefused
from deployer.log_lines.control_characters import remove_controls
from deployer.shield import end_tasks, shielded
from pipeline_contracts.deploy_states import DeploymentStatus

logger = logging.getLogger(__name__)

MAX_BYTES = 512 * 1024 * 1024
_POLL_SECONDS, _FAILED_SECONDS = 1.0, 30.0
_TIMEOUT_SECONDS = 60.0
# At least two time limits: an earlier look-up has ended by then. The pause doubles as the deployment gets older.
_RETRY_SECONDS = tuple(300.0 * 2**doublings for doublings in range(7))
_LONGEST_RETRY_SECONDS = 6 * 3600.0
_MAX_RUNNING, _MAX_RUNNING_OF_HOST = 4, 2
_PAGE_ROWS = 200
_LONGEST_FAULT = 500
# Pauses in seconds between attempts to store the result of a look-up.
_WRITE_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True, slots=True)
class CommitLookup:
    """A deployment whose commit is to be looked up."""

    deployment_id: int
    account_id: int
    url: str
    ref: str
    revision: str | None
    is_described: bool = False
    """True if the subject and author of the commit are known."""
    live_revision: str | None = None
    """The commit of the environment's live release. None if nothing is live."""
    tried_at: datetime | None = None
    """Time of the last look-up; None if there was none."""

    @property
    def host(self) -> str:
        """Return the host name of the repository. Empty for a folder on this machine."""
        return urlsplit(self.url).hostname or self.url.partition(":")[0]


class CommitLookups:
    """Looks up commits. Runs one look-up at a time for each account and a few for each host, so that a slow host
    delays no other account. Deployments that were never looked up come first, then those whose last look-up is the
    oldest."""

    def __init__(self, sessions: Sessions, holder: str, check: Callable[[], Awaitable[None]]) -> None:
        """`check`: raises `DatabaseRefused` for a database that must not be written."""
        self._sessions = sessions
        self._holder = holder
        self._check = check
        self._changes = Changes(sessions)
        self._is_failure_logged = False
        self._running: dict[asyncio.Task[None], CommitLookup] = {}
        self._claimed: dict[int, datetime] = {}
        """The time at which each running look-up was claimed, by deployment ID."""

    async def run(self) -> None:
        """Look up commits until cancelled. Cancelled look-ups are due again at once."""
        try:
            while True:
                pause = await self._poll()
                await asyncio.sleep(pause)
        finally:
            await end_tasks(*self._running)
            await self._release_claims([lookup for task, lookup in self._running.items() if task.cancelled()])

    async def _poll(self) -> float:
        """Start the due look-ups, and return the number of seconds until the next poll."""
        # An ended look-up allows another one to start, so the poll must not be skipped then.
        if not self._changes.is_due() and not self._running:
            return _POLL_SECONDS
        try:
            await self.start_due()
            self._is_failure_logged = False
        except DatabaseRefused:
            # The deployer itself logs why the database is refused.
            self._changes.repeat()
            return _POLL_SECONDS
        except SQLAlchemyError as error:
            self._changes.repeat()
            if not self._is_failure_logged:
                logger.warning("the commits to look up cannot be read from the database: %s", error)
            self._is_failure_logged = True
        except Exception:
            # A look-up that cannot be read must not end all others.
            self._changes.repeat()
            logger.exception("the commits to look up could not be read")
            return _FAILED_SECONDS
        return _POLL_SECONDS

    async def start_due(self) -> None:
        """Start the due look-ups, as many as the limits allow. Raises `DatabaseRefused` and database errors."""
        self._running = {task: lookup for task, lookup in self._running.items() if not task.done()}
        self._claimed = {
            lookup.deployment_id: self._claimed[lookup.deployment_id] for lookup in self._running.values()
        }
        if len(self._running) >= _MAX_RUNNING:
            return
        page = 0
        while found := await self._find_due(page):
            # Do not claim rows of another database or an older backup.
            await self._check()
            for lookup in found:
                if self._can_start(lookup):
                    await self._start(lookup)
            if len(found) < _PAGE_ROWS or len(self._running) >= _MAX_RUNNING:
                return
            # Look-ups that were claimed meanwhile are no longer due, so this page may skip some look-ups until the
            # next poll.
            page += 1

    def _can_start(self, lookup: CommitLookup) -> bool:
        busy = self._running.values()
        return (
            len(busy) < _MAX_RUNNING
            and sum(other.host == lookup.host for other in busy) < _MAX_RUNNING_OF_HOST
            and all(other.account_id != lookup.account_id for other in busy)
        )

    async def _find_due(self, page: int) -> list[CommitLookup]:
        """Return one page of due look-ups. For each repository, the page has the look-up that was never tried or
        whose last attempt is the oldest."""
        busy = [lookup.account_id for lookup in self._running.values()]
        async with self._sessions() as session:
            rows = (await session.execute(_due_query(), {"busy": busy, "skip": page * _PAGE_ROWS})).all()
        return [
            CommitLookup(number, account_id, url, choose_ref(ref, own, branch), revision, *others)
            for number, account_id, url, ref, own, branch, revision, *others in rows
        ]

    @shielded
    async def _start(self, lookup: CommitLookup) -> None:
        """Start a task that looks up the commit, unless another deployer has claimed the look-up."""
        claimed_at = await self._claim(lookup)
        if claimed_at is not None:
            self._claimed[lookup.deployment_id] = claimed_at
            self._running[asyncio.create_task(self._look_up(lookup))] = lookup

    async def _claim(self, lookup: CommitLookup) -> datetime | None:
        """Claim the look-up, and return the time of the claim; None if another deployer has claimed it."""
        async with self._sessions() as session, session.begin():
            claimed = await session.execute(
                update(Deployment)
                .where(Deployment.id == lookup.deployment_id, *_due())
                .values(commit_looked_up_at=database_now())
                .returning(Deployment.commit_looked_up_at)
                .execution_options(synchronize_session=False)
            )
            return claimed.scalar_one_or_none()

    @shielded
    async def _release_claims(self, cancelled: Sequence[CommitLookup]) -> None:
        """Make the cancelled look-ups due again at once: without a commit, nobody can approve the deployment."""
        try:
            for lookup in cancelled:
                await self._check()
                async with self._sessions() as session, session.begin():
                    await session.execute(
                        update(Deployment)
                        .where(
                            Deployment.id == lookup.deployment_id,
                            Deployment.commit_looked_up_at == self._claimed[lookup.deployment_id],
                        )
                        .values(commit_looked_up_at=lookup.tried_at)
                        .execution_options(synchronize_session=False)
                    )
        except (SQLAlchemyError, DatabaseRefused) as error:
            logger.warning("cancelled look-ups of commits are repeated later: %s", error)

    async def _look_up(self, lookup: CommitLookup) -> None:
        revision = lookup.revision
        values: dict[str, str | None]
        mark = f"{self._holder}/git/{lookup.deployment_id}"
        try:
            if revision is None:
                revision = await resolve_ref(
                    lookup.url,
                    lookup.ref,
                    mark=mark,
                    timeout_seconds=_TIMEOUT_SECONDS,
                    most_bytes=MAX_BYTES,
                )
            values = {"commit_fault": None}
            if lookup.revision is None or not lookup.is_described:
                subject, author = await read_commit(
                    lookup.url, revision, mark=mark, timeout_seconds=_TIMEOUT_SECONDS, most_bytes=MAX_BYTES
                )
                values |= {"commit_subject": subject, "commit_author": author}
            values |= await _compare_with_live(lookup, revision, mark)
        except CheckOutFailed as error:
            values = {"commit_fault": remove_controls(str(error))[:_LONGEST_FAULT]}
        except Exception:
            logger.exception("the commit of deployment %d could not be looked up", lookup.deployment_id)
            values = {
                "commit_fault": "The deployer failed while it looked the commit up: its own log says why."
            }
        try:
            await self._write_with_retries(lookup, revision, values)
        except (SQLAlchemyError, DatabaseRefused) as error:
            logger.warning(
                "the commit of deployment %d could not be stored and is looked up again later: %s",
                lookup.deployment_id,
                error,
            )
        except Exception:
            logger.exception("the commit of deployment %d could not be written", lookup.deployment_id)

    async def _write_with_retries(
        self, lookup: CommitLookup, revision: str | None, values: dict[str, str | None]
    ) -> None:
        """Retry the write while the database is unavailable for a moment: the next look-up is due minutes later."""
        for pause in _WRITE_PAUSES:
            try:
                await self._check()
                return await self._write(lookup, revision, values)
            except SQLAlchemyError:
                await asyncio.sleep(pause)
        await self._check()
        await self._write(lookup, revision, values)

    async def _write(self, lookup: CommitLookup, revision: str | None, values: dict[str, str | None]) -> None:
        is_same = (
            Deployment.revision.is_(None) if lookup.revision is None else Deployment.revision == revision
        )
        async with self._sessions() as session, session.begin():
            await session.execute(
                update(Deployment)
                .where(
                    Deployment.id == lookup.deployment_id,
                    Deployment.status == DeploymentStatus.AWAITING_APPROVAL,
                    is_same,
                )
                .values(revision=revision, **values)
                .execution_options(synchronize_session=False)
            )


async def _compare_with_live(lookup: CommitLookup, revision: str, mark: str) -> dict[str, str | None]:
    """Return the columns that describe the commits since the live release. A failed comparison delays no approval,
    and is tried again later."""
    since = lookup.live_revision
    if since is None:
        return {"new_commits": encode_new_commits(None), "new_commits_since": None}
    try:
        found = await compare_commits(
            lookup.url, revision, since, mark=mark, timeout_seconds=_TIMEOUT_SECONDS, most_bytes=MAX_BYTES
        )
    except CheckOutFailed as error:
        found = describe_fault(since, remove_controls(str(error))[:_LONGEST_FAULT])
    return {
        "new_commits": encode_new_commits(found),
        "new_commits_since": since if found["fault"] is None else None,
    }


def _live_revision() -> ScalarSelect[str | None]:
    return (
        select(Release.revision)
        .join(LiveRelease, LiveRelease.release_id == Release.id)
        .where(LiveRelease.environment_id == Deployment.environment_id)
        .correlate(Deployment)
        .scalar_subquery()
    )


@cache
def _due_query() -> Select[*tuple[Any, ...]]:
    """Return the query for a page of due look-ups. Its parameters are `skip`, the number of rows before the page,
    and `busy`, the accounts to leave out.

    The query is built once: it runs every second, and building it costs more than running it.
    """
    order = (Deployment.commit_looked_up_at.asc().nulls_first(), Deployment.id)
    rank = func.row_number().over(partition_by=Deployment.repository_id, order_by=order)
    due = select(Deployment.id, rank.label("rank")).where(*_due()).subquery()
    return (
        select(
            Deployment.id,
            Deployment.account_id,
            Repository.url,
            Deployment.ref,
            Environment.branch,
            Repository.branch,
            Deployment.revision,
            Deployment.commit_subject.is_not(None),
            _live_revision(),
            Deployment.commit_looked_up_at,
        )
        .join(due, due.c.id == Deployment.id)
        .join(Repository, Repository.id == Deployment.repository_id)
        .join(Environment, Environment.id == Deployment.environment_id)
        .where(
            due.c.rank == 1,
            Repository.disconnected_at.is_(None),
            Deployment.account_id.not_in(bindparam("busy", expanding=True)),
        )
        .order_by(*order)
        .offset(bindparam("skip", type_=Integer))
        .limit(_PAGE_ROWS)
    )


def _due() -> tuple[ColumnElement[bool], ...]:
    began = Deployment.commit_looked_up_at
    return (
        Deployment.status == DeploymentStatus.AWAITING_APPROVAL,
        # The commit comes from the branch of the environment, so a deployment without an environment is left out.
        Deployment.environment_id.is_not(None),
        or_(
            Deployment.revision.is_(None),
            Deployment.commit_subject.is_(None),
            Deployment.new_commits.is_(None),
            Deployment.new_commits_since.is_distinct_from(_live_revision()),
        ),
        or_(
            began.is_(None),
            # This is roughly a quarter of the deployment's age, because no column counts the attempts.
            *(
                and_(Deployment.created_at > database_now(-4 * seconds), began < database_now(-seconds))
                for seconds in _RETRY_SECONDS
            ),
            began < database_now(-_LONGEST_RETRY_SECONDS),
        ),
    )
