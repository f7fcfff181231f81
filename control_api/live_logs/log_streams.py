"""The open streams of a process. Their number is limited, and one polling query notifies all streams of
deployments."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from control_domain.database.engine import Sessions
from control_domain.tables.deployments import Deployment, DeploymentLine
from pipeline_contracts.errors import Unavailable

# Limits for each kind of stream, so that readers of records do not use up the streams of deployments.
MAX_STREAMS = 100
MAX_STREAMS_PER_ACCOUNT = 16
MAX_STREAMS_PER_PERSON = 8
_POLL_SECONDS = 0.3

LogPosition = tuple[str, int]
"""A deployment's status and the ID of its last line (0 without a line)."""


Kind = Literal["deployments", "processes", "records"]


class Reader(NamedTuple):
    """The account and person that read a stream."""

    account_id: int
    person_id: int


@dataclass(eq=False, slots=True)
class OpenStream:
    """One open stream."""

    kind: Kind
    reader: Reader
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the process stops, and, for the log of a deployment, when the log has changed."""


@dataclass(eq=False, slots=True)
class Follower(OpenStream):
    """The reader of the log of a deployment."""

    deployment_id: int = 0
    position: LogPosition | None = None
    """The position up to which the log was sent to the reader. `changed` is set when the log differs from it."""


class LogStreams:
    """All streams of a process: logs of deployments, output of processes, and records of environments."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._streams: set[OpenStream] = set()
        self._followers: set[Follower] = set()
        self._poll_task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    @property
    def is_stopping(self) -> bool:
        """True if the process stops and all streams have to end."""
        return self._stopping.is_set()

    def check_capacity(self, kind: Kind, reader: Reader) -> None:
        """Raise `Unavailable` if the process, the account or the person has no stream of this kind left."""
        streams = [stream.reader for stream in self._streams if stream.kind == kind]
        if len(streams) >= MAX_STREAMS:
            raise Unavailable(
                "Too many live logs are open here. Send the request without `Accept: text/event-stream`.",
                retry_after=5,
            )
        of_account = sum(each.account_id == reader.account_id for each in streams)
        of_person = sum(each.person_id == reader.person_id for each in streams)
        if of_account >= MAX_STREAMS_PER_ACCOUNT or of_person >= MAX_STREAMS_PER_PERSON:
            raise Unavailable(
                f"The account has {of_account} live logs of {kind} open here, the person {of_person}; at most "
                f"{MAX_STREAMS_PER_ACCOUNT} and {MAX_STREAMS_PER_PERSON} are possible. Close one, or "
                "send the request without `Accept: text/event-stream`.",
                retry_after=5,
            )

    def stop(self) -> None:
        """Make all streams end soon. Their readers may reconnect to another process."""
        self._stopping.set()
        for stream in self._streams:
            stream.changed.set()

    async def close(self) -> None:
        """Stop, and wait for the last query: only then may the database engine be disposed of."""
        self.stop()
        if self._poll_task is not None:
            await self._poll_task

    @contextmanager
    def following(self, deployment_id: int, reader: Reader) -> Iterator[Follower]:
        """Open a stream: set `Follower.changed` whenever the log has changed. Raises `Unavailable`."""
        follower = Follower("deployments", reader, deployment_id=deployment_id)
        with self._occupying(follower):
            self._followers.add(follower)
            if self._poll_task is None or self._poll_task.done():
                self._poll_task = asyncio.create_task(self._poll(), name="live logs")
            try:
                yield follower
            finally:
                self._followers.remove(follower)

    @contextmanager
    def occupying(self, kind: Kind, reader: Reader) -> Iterator[OpenStream]:
        """Open a stream of another kind, whose reader polls by itself. Raises `Unavailable`."""
        stream = OpenStream(kind, reader)
        with self._occupying(stream):
            yield stream

    @contextmanager
    def _occupying(self, stream: OpenStream) -> Iterator[None]:
        self.check_capacity(stream.kind, stream.reader)
        self._streams.add(stream)
        try:
            yield
        finally:
            self._streams.remove(stream)

    async def _poll(self) -> None:
        """Notify the followers of changes until there are none left."""
        while self._followers and not self.is_stopping:
            try:
                positions = await self._read_positions({f.deployment_id for f in self._followers})
            except SQLAlchemyError:
                # Wake all followers: the query of each fails too and ends its stream.
                positions = {}
            for follower in self._followers:
                if positions.get(follower.deployment_id) != follower.position:
                    follower.changed.set()
            try:
                async with asyncio.timeout(_POLL_SECONDS):
                    await self._stopping.wait()
            except TimeoutError:
                continue

    async def _read_positions(self, deployment_ids: set[int]) -> Mapping[int, LogPosition]:
        # Account scope: the route has found each deployment in its caller's account.
        last_line = (
            select(func.coalesce(func.max(DeploymentLine.id), 0))
            .where(DeploymentLine.deployment_id == Deployment.id)
            .scalar_subquery()
        )
        query = select(Deployment.id, Deployment.status, last_line).where(Deployment.id.in_(deployment_ids))
        async with self._sessions() as session:
            return {number: (status, line) for number, status, line in await session.execute(query)}
