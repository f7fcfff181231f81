"""Looks up the commits of deployments that wait for approval: the revision, and its subject and author."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from sqlalchemy import ColumnElement, func, or_, select, update
from sqlalchemy.exc import SQLAlchemyError

from control_api.database import Sessions
from control_api.database_clock import database_now
from control_api.deployments.tables import Deployment
from control_api.git_refs import choose_ref
from control_api.projects.tables import Environment
from control_api.repositories.tables import Repository
from deployer.check_out.failures import CheckOutFailed
from deployer.check_out.resolve_ref import check_url, object_format, resolve_ref, temporary_folder
from deployer.check_out.run_git import open_git, until
from deployer.database_guard import DatabaseRefused
from deployer.log_lines.control_characters import remove_controls
from deployer.uncut import end_tasks
from pipeline_contracts.deploy_states import DeploymentStatus

logger = logging.getLogger(__name__)

MOST_BYTES = 512 * 1024 * 1024
_LOOK_SECONDS, _FAILED_SECONDS = 1.0, 30.0
_TIMEOUT_SECONDS = 60.0
# Longer than two time limits: whoever began a look-up has ended it by then.
_AGAIN_SECONDS = 300.0
_MOST_AT_ONCE, _MOST_OF_HOST = 4, 2
_MOST_FOUND = 200
_LONGEST, _LONGEST_FAULT = 200, 500


@dataclass(frozen=True, slots=True)
class Sought:
    """A commit that is to be looked up."""

    deployment_id: int
    repository_id: int
    url: str
    ref: str
    revision: str | None

    @property
    def host(self) -> str:
        """Where the repository is; empty for a folder of this machine."""
        return urlsplit(self.url).hostname or self.url.partition(":")[0]


class CommitLookUps:
    """Looks up commits: one at a time of a repository and few of a host, so that a slow one holds up no other."""

    def __init__(self, sessions: Sessions, holder: str, check: Callable[[], Awaitable[None]]) -> None:
        """`check` raises `DatabaseRefused` for a database in which nothing is to be written."""
        self._sessions = sessions
        self._holder = holder
        self._check = check
        self._is_away = False
        self._running: dict[asyncio.Task[None], Sought] = {}

    async def run(self) -> None:
        """Until it is cancelled."""
        try:
            while True:
                pause = await self._try_to_look()
                await asyncio.sleep(pause)
        finally:
            await end_tasks(*self._running)

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
        if len(self._running) >= _MOST_AT_ONCE:
            return
        found = await self._find()
        if found:
            # In another database or an older backup nothing is claimed.
            await self._check()
        for sought in found:
            busy = self._running.values()
            if len(busy) >= _MOST_AT_ONCE:
                return
            of_host = sum(one.host == sought.host for one in busy)
            is_busy = any(one.repository_id == sought.repository_id for one in busy)
            if of_host < _MOST_OF_HOST and not is_busy and await self._claim(sought):
                self._running[asyncio.create_task(self._look_up(sought))] = sought

    async def _find(self) -> list[Sought]:
        """The oldest of each repository."""
        oldest = select(func.min(Deployment.id)).where(*_due()).group_by(Deployment.repository_id)
        query = (
            select(
                Deployment.id,
                Repository.id,
                Repository.url,
                Deployment.ref,
                Environment.branch,
                Repository.branch,
                Deployment.revision,
            )
            .join(Repository, Repository.id == Deployment.repository_id)
            .join(Environment, Environment.id == Deployment.environment_id)
            .where(Deployment.id.in_(oldest))
            .order_by(Deployment.id)
            .limit(_MOST_FOUND)
        )
        async with self._sessions() as session:
            rows = (await session.execute(query)).all()
        return [
            Sought(number, of, url, choose_ref(ref, own, branch), revision)
            for number, of, url, ref, own, branch, revision in rows
        ]

    async def _claim(self, sought: Sought) -> bool:
        """Whether this deployer looks it up: of several, one does."""
        async with self._sessions() as session, session.begin():
            claimed = await session.execute(
                update(Deployment)
                .where(Deployment.id == sought.deployment_id, *_due())
                .values(commit_looked_up_at=database_now())
                .returning(Deployment.id)
                .execution_options(synchronize_session=False)
            )
            return claimed.first() is not None

    async def _look_up(self, sought: Sought) -> None:
        revision = sought.revision
        values: dict[str, str | None]
        mark = f"{self._holder}/git/{sought.deployment_id}"
        try:
            if revision is None:
                revision = await resolve_ref(
                    sought.url, sought.ref, mark=mark, timeout_seconds=_TIMEOUT_SECONDS
                )
            subject, author = await read_commit(sought.url, revision, mark=mark)
            values = {"commit_subject": subject, "commit_author": author, "commit_fault": None}
        except CheckOutFailed as error:
            values = {"commit_fault": remove_controls(str(error))[:_LONGEST_FAULT]}
        except Exception:
            logger.exception("the commit of deployment %d could not be looked up", sought.deployment_id)
            values = {
                "commit_fault": "The deployer failed while it looked the commit up: its own log says why."
            }
        try:
            await self._check()
            await self._write(sought, revision, values)
        except (SQLAlchemyError, DatabaseRefused) as error:
            logger.warning("a commit is looked up again later: %s", error)
        except Exception:
            logger.exception("the commit of deployment %d could not be written", sought.deployment_id)

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
        or_(began.is_(None), began < database_now(-_AGAIN_SECONDS)),
    )


async def read_commit(url: str, revision: str, *, mark: str | None = None) -> tuple[str, str]:
    """Return the subject and the author of a commit, fetched alone into a folder that is removed. Raises
    `CheckOutFailed`."""
    deadline = asyncio.get_running_loop().time() + _TIMEOUT_SECONDS
    with TemporaryDirectory(
        prefix="pharos-commit-", dir=temporary_folder(), ignore_cleanup_errors=True
    ) as folder:
        async with until(deadline, f"The commit could not be fetched within {_TIMEOUT_SECONDS:g} seconds."):
            git = await open_git(url := check_url(url), Path(folder, "git"), mark)
            await git.must("init", "--quiet", "--bare", "--template=", object_format(len(revision)))
            await git.must("config", "remote.origin.url", url)
            fetching = asyncio.create_task(
                git.must(
                    "-c",
                    "fetch.unpackLimit=1",
                    "fetch",
                    "--quiet",
                    "--no-tags",
                    "--depth=1",
                    "--filter=tree:0",
                    "origin",
                    revision,
                )
            )
            try:
                await _bounded(fetching, Path(folder))
            finally:
                await end_tasks(fetching)
            told = await git.must("show", "--no-patch", "--format=%s%n%an", revision, "--")
    subject, _, author = told.partition("\n")
    return _clean(subject), _clean(author)


async def _bounded(fetching: "asyncio.Task[str]", folder: Path) -> None:
    """Wait for the end of the fetch, which takes no more than `MOST_BYTES` on disk."""
    while not fetching.done():
        await asyncio.wait({fetching}, timeout=0.25)
        if _size(folder) > MOST_BYTES:
            raise CheckOutFailed(f"The commit is larger than {MOST_BYTES // 1024**2} MiB.")
    await fetching


def _size(folder: Path) -> int:
    size = 0
    for path in folder.rglob("*"):
        try:
            size += path.lstat().st_size
        except FileNotFoundError:
            continue
    return size


def _clean(text: str) -> str:
    one_line = " ".join(remove_controls(text).split())
    return "".join(c for c in one_line if c.isprintable())[:_LONGEST]
