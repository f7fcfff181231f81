"""The live logs that are being sent: few, and told of news by one look into the database for all of them."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from control_domain.database.engine import Sessions
from control_domain.tables.deployments import Deployment, DeploymentLine
from pipeline_contracts.errors import Unavailable

MOST_STREAMS = 100
MOST_OF_ACCOUNT = 10
_POLL_SECONDS = 0.3

Seen = tuple[str, int]
"""A deployment's status, and the ID of its last line; 0: none."""


@dataclass(eq=False, slots=True)
class Follower:
    """One live log."""

    deployment_id: int
    account_id: int
    seen: Seen | None = None
    """What its reader knows."""
    news: asyncio.Event = field(default_factory=asyncio.Event)


class LogStreams:
    """All live logs of a process."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._followers: set[Follower] = set()
        self._looking: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    @property
    def is_stopping(self) -> bool:
        """Whether they have to end: the process does."""
        return self._stopping.is_set()

    def check_room(self, account_id: int) -> None:
        """Raise `Unavailable` if all streams, or all of this account, are in use: one token must not take all."""
        if len(self._followers) >= MOST_STREAMS:
            raise Unavailable(
                "Too many live logs are open here. Ask without the event stream.", retry_after=5
            )
        if sum(one.account_id == account_id for one in self._followers) >= MOST_OF_ACCOUNT:
            raise Unavailable(
                f"The account has {MOST_OF_ACCOUNT} live logs open here, and may have no more: close one, or ask "
                "without the event stream.",
                retry_after=5,
            )

    def stop(self) -> None:
        """End all of them soon; their readers may come back elsewhere."""
        self._stopping.set()
        for follower in self._followers:
            follower.news.set()

    async def close(self) -> None:
        """End, and wait until the database is asked nothing any more: only then may its engine be disposed of."""
        self.stop()
        if self._looking is not None:
            await self._looking

    @contextmanager
    def following(self, deployment_id: int, account_id: int) -> Iterator[Follower]:
        """Have `news` set whenever there is more than the follower has seen. Raises `Unavailable`."""
        self.check_room(account_id)
        follower = Follower(deployment_id, account_id)
        self._followers.add(follower)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_for_news(), name="live logs")
        try:
            yield follower
        finally:
            self._followers.remove(follower)

    async def _look_for_news(self) -> None:
        """Until nobody follows any more."""
        while self._followers and not self.is_stopping:
            try:
                found = await self._look({follower.deployment_id for follower in self._followers})
            except SQLAlchemyError:
                # Each finds out by itself, and ends.
                found = {}
            for follower in self._followers:
                if found.get(follower.deployment_id) != follower.seen:
                    follower.news.set()
            try:
                async with asyncio.timeout(_POLL_SECONDS):
                    await self._stopping.wait()
            except TimeoutError:
                continue

    async def _look(self, deployment_ids: set[int]) -> Mapping[int, Seen]:
        # Account scope: the route has found each deployment in its caller's account.
        last = (
            select(func.coalesce(func.max(DeploymentLine.id), 0))
            .where(DeploymentLine.deployment_id == Deployment.id)
            .scalar_subquery()
        )
        query = select(Deployment.id, Deployment.status, last).where(Deployment.id.in_(deployment_ids))
        async with self._sessions() as session:
            return {number: (status, line) for number, status, line in await session.execute(query)}
