"""Sweeps one account for changes while it has followers, and notifies each follower of its topics."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from anyio import CancelScope
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from analytics_queries.overview.count_receipts import count_receipts
from control_api.limits.fair_queue import FairQueue
from control_api.limits.report_queue import run_in_queue
from control_domain.changes.sweep import Marks, changed_topics, read_marks
from control_domain.changes.topics import STORED_TOPICS, Topic
from control_domain.database.engine import Sessions
from control_domain.tables.projects import Environment, Project
from control_domain.tables.sites import Site
from pipeline_contracts.errors import StorageUnavailable, TooManyRequests, Unavailable
from storage_backends.column_store.interface import ColumnStore

T = TypeVar("T")

logger = logging.getLogger(__name__)

SWEEP_SECONDS = 1.0
STORE_SWEEP_SECONDS = 5.0
_STORE_QUERY_SECONDS = 3.0
# The name of these sweeps, of all accounts together, in the queue of reports.
_OWNER = "changes"
_NEVER = datetime.min.replace(tzinfo=UTC)
# Consumers store rows some seconds after their receipt, and later than this only after an outage.
_STORE_WINDOW = timedelta(minutes=2)
# How far the first sweep, also after an outage, looks back: a longer range would read too many rows.
_MAX_STORE_WINDOW = timedelta(minutes=10)
# The text of a query has a limit. In an account with more environments, only the newest ones are swept.
_STORE_SCOPE = 5000


@dataclass(eq=False, slots=True)
class Follower:
    """A reader of changes."""

    account_id: int
    person_id: int
    topics: frozenset[Topic]
    changed: set[Topic] = field(default_factory=set)
    """Changed topics that have not been sent to the reader yet."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when `changed` has a topic, when the first sweep has ended, and when the process stops."""
    is_ready: bool = False
    """True once a sweep has covered the topics: later changes are reported."""
    is_open: bool = False
    """True once the headers were sent: after the first sweep, or after waiting too long for it."""


class StoreSweeps:
    """Runs the sweeps of the column store in the queue of reports, one at a time for all accounts."""

    def __init__(self, queue: FairQueue) -> None:
        self._queue = queue
        self._turn = asyncio.Lock()

    async def run(self, sweep: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `sweep`, whose queries share 3 s. Raises `TooManyRequests` and `Unavailable` if the
        queue has no turn for it."""
        async with self._turn:
            return await run_in_queue(self._queue, _OWNER, sweep, _STORE_QUERY_SECONDS)


class AccountWatch:
    """The sweeps of one account, which run while it has followers."""

    def __init__(
        self, sessions: Sessions, store: ColumnStore, store_sweeps: StoreSweeps, account_id: int
    ) -> None:
        self.followers: set[Follower] = set()
        self._sessions = sessions
        self._store = store
        self._store_sweeps = store_sweeps
        self._account_id = account_id
        self._stopping = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._marks: Marks = {}
        self._receipts: Mapping[str, int] = {}
        """The rows of each topic that were received since `_counted_since`."""
        self._counted_since = _NEVER
        self._is_failing = False

    def add(self, follower: Follower) -> None:
        """Begin to notify a follower."""
        self.followers.add(follower)
        if not self._runs("sweep"):
            # Changes while the account had no followers are not reported.
            self._marks = {}
            self._start("sweep", SWEEP_SECONDS, self._sweep)
        if follower.topics & STORED_TOPICS and not self._runs("store"):
            self._counted_since = _NEVER
            self._start("store", STORE_SWEEP_SECONDS, self._sweep_store)

    @property
    def is_over(self) -> bool:
        """True if the account has no followers and no query runs."""
        return not self.followers and all(task.done() for task in self._tasks.values())

    async def close(self) -> None:
        """Stop, and wait for the last queries."""
        self._stopping.set()
        for task in self._tasks.values():
            await task

    def _topics(self) -> frozenset[Topic]:
        return frozenset[Topic]().union(*(follower.topics for follower in self.followers))

    def _runs(self, name: str) -> bool:
        return name in self._tasks and not self._tasks[name].done()

    def _start(self, name: str, seconds: float, sweep: Callable[[], Awaitable[None]]) -> None:
        self._tasks[name] = asyncio.create_task(self._repeat(seconds, sweep), name=f"changes: {name}")

    async def _repeat(self, seconds: float, sweep: Callable[[], Awaitable[None]]) -> None:
        """Sweep until the account has no followers."""
        while self.followers and not self._stopping.is_set():
            try:
                # Shielded: a cancellation would leak a database connection that is just being opened.
                with CancelScope(shield=True):
                    await sweep()
                self._is_failing = False
            except (SQLAlchemyError, StorageUnavailable, TooManyRequests, Unavailable) as error:
                # The pages stay connected. The next successful sweep finds the changes that were made meanwhile.
                if not self._is_failing:
                    logger.warning("changes of an account cannot be read: %s", type(error).__name__)
                self._is_failing = True
            except Exception:
                # One bad row, or a limit of the store, must not end the changes of a page that stays open.
                logger.exception("a sweep for changes of an account has failed")
            try:
                async with asyncio.timeout(seconds):
                    await self._stopping.wait()
            except TimeoutError:
                continue

    async def _sweep(self) -> None:
        followers = tuple(self.followers)
        async with self._sessions() as session:
            marks = await read_marks(session, self._account_id, self._topics())
        self._notify(changed_topics(self._marks, marks))
        self._marks = marks
        for follower in followers:
            if not follower.is_ready:
                follower.is_ready = True
                if follower.is_open:
                    # The follower's page has loaded since then: changes before this sweep are unknown.
                    follower.changed |= follower.topics
                follower.wake.set()

    async def _sweep_store(self) -> None:
        topics = self._topics() & STORED_TOPICS
        if not topics:
            return
        environments, sites = await self._read_scope()
        now = datetime.now(UTC)
        if self._counted_since < now - _MAX_STORE_WINDOW:
            self._counted_since, self._receipts = now - _MAX_STORE_WINDOW, {}
        since = now - _STORE_WINDOW
        counts = await self._store_sweeps.run(
            lambda: count_receipts(self._store, topics, environments, sites, self._counted_since, since)
        )
        # Compare counts, not the last receipt, because consumers store rows in any order. Without earlier counts,
        # recent rows are reported, because they may have arrived after the pages were loaded.
        self._notify(
            frozenset(topic for topic in topics if counts[topic].since_former != self._receipts.get(topic, 0))
        )
        self._receipts = {topic: count.since_later for topic, count in counts.items()}
        self._counted_since = since

    async def _read_scope(self) -> tuple[list[str], list[int]]:
        """Return the IDs of the environments and of the sites of the account."""
        in_account = Project.account_id == self._account_id
        environments = (
            select(Environment.public_id)
            .join(Project, Project.id == Environment.project_id)
            .where(in_account)
            .order_by(Environment.id.desc())
            .limit(_STORE_SCOPE)
        )
        sites = (
            select(Site.id)
            .join(Project, Project.id == Site.project_id)
            .where(in_account)
            .order_by(Site.id.desc())
            .limit(_STORE_SCOPE)
        )
        async with self._sessions() as session:
            return [*await session.scalars(environments)], [*await session.scalars(sites)]

    def _notify(self, changed: frozenset[Topic]) -> None:
        if not changed:
            return
        for follower in self.followers:
            if follower.is_ready and (told := changed & follower.topics):
                follower.changed |= told
                follower.wake.set()
