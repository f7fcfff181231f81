"""A deployment's log as it is written: cut into lines, masked, bounded, and slowed down to what the database takes."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, insert, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.database import Sessions
from control_api.deployments.tables import DeploymentLine
from deployer.drivers.interface import Stream, WorkFailed
from deployer.leases import Lease, LeaseLost, hold_lease
from deployer.log_lines.lines import LineSplitter
from deployer.log_lines.masking import Mask
from deployer.retry_while_leased import retry_while_leased
from deployer.uncut import end_tasks, uncut
from pipeline_contracts.deploy_states import DeploymentStep
from pipeline_contracts.times import format_time

_TOGETHER = 500
_FLUSH_SECONDS = 0.25
# What waits for the rest of its line, such as a question.
_PATIENCE_SECONDS = 1.0
# What a row costs beside its text: otherwise ten million empty lines would be small.
_LINE_BYTES = 64


def utc_now() -> datetime:
    """The time."""
    return datetime.now(UTC)


class DeploymentLog:
    """A `WorkLog` over the deployment's lines. Whoever writes waits while the database has enough to do."""

    def __init__(
        self,
        sessions: Sessions,
        lease: Lease,
        deployment_id: int,
        mask: Mask,
        most_bytes: int,
        note: Callable[[DeploymentStep], Awaitable[None]],
    ) -> None:
        """`note` writes down which step begins."""
        self._sessions = sessions
        self._lease = lease
        self._deployment_id = deployment_id
        self._mask = mask
        self._note = note
        self._left = most_bytes
        self._most_bytes = most_bytes
        self._splitters = {"stdout": LineSplitter(mask), "stderr": LineSplitter(mask)}
        self._fed_at = 0.0
        self._rows: list[dict[str, Any]] = []
        self._sent = 0
        """How many of them have been sent to the database, which has not said that it has them."""
        self._sent_after = 0
        """The newest line that it had then."""
        self._writing = asyncio.Lock()
        self._fault: BaseException | None = None

    def hide(self, text: str) -> str:
        """The text without the values of variables."""
        return self._mask.hide(text)

    async def begin(self, step: DeploymentStep) -> None:
        """Tell that the work is at this step by now."""
        await self._note(step)

    async def write(self, stream: Stream, data: bytes) -> None:
        """A piece of what a step printed. Raises `WorkFailed` where the log has become too long, and what the last
        flush raised."""
        if self._fault is not None:
            # The lease is over: what prints must not wait for more lines to be ended.
            raise self._fault
        self._fed_at = time.monotonic()
        # As it was printed: of a line without end hardly anything is kept, and reading it costs as much.
        self._left -= len(data)
        self._add(stream, self._splitters[stream].feed(data))
        if self._left < 0:
            await self.flush()
            raise WorkFailed(
                f"The steps printed more than {self._most_bytes / 2**20:.0f} MiB: the deployment was ended. "
                "Have them print less, or send it to a file."
            )
        if len(self._rows) >= _TOGETHER:
            await self.flush()

    async def say(self, text: str) -> None:
        """A line of Pharos' own, behind all that was printed so far."""
        self.end_lines()
        for line in self._mask.hide(text).splitlines() or [""]:
            self._rows.append(self._row("system", line))
        await self.flush()

    def end_lines(self) -> None:
        """Count what was printed without the end of a line as a line."""
        for stream, splitter in self._splitters.items():
            self._add(stream, splitter.flush())

    async def flush(self) -> None:
        """Have all lines in the database. Waits for one that is away, as long as the lease lasts. Raises `LeaseLost`
        and what the database raises."""
        if self._fault is not None:
            raise self._fault
        async with self._writing:
            # Where the database is away, whoever writes waits here, and what prints waits at a full pipe: no line is
            # lost, and no more of them pile up.
            if self._sent:
                await self._store()
            if self._rows:
                await self._store()

    async def _store(self) -> None:
        await retry_while_leased(self._lease, self._insert)

    @uncut
    async def _insert(self) -> None:
        """Store the lines once, and forget them: also where this is cancelled, and where an earlier commit counted
        whose answer was lost."""
        rows = self._rows[: self._sent or None]
        async with self._sessions() as session, session.begin():
            # Lines are read in the order of their numbers: nobody else writes any meanwhile. It also waits for a commit
            # that the database has not finished.
            await hold_lease(session, self._lease)
            if not (self._sent and await self._is_stored(session, rows[0])):
                mine = DeploymentLine.deployment_id == self._deployment_id
                self._sent_after = await session.scalar(select(func.max(DeploymentLine.id)).where(mine)) or 0
                self._sent = len(rows)
                await session.execute(insert(DeploymentLine), rows)
        del self._rows[: len(rows)]
        self._sent = 0

    async def _is_stored(self, session: AsyncSession, row: Mapping[str, Any]) -> bool:
        is_it = (getattr(DeploymentLine, name) == value for name, value in row.items())
        query = select(DeploymentLine.id).where(*is_it, DeploymentLine.id > self._sent_after).limit(1)
        return await session.scalar(query) is not None

    @asynccontextmanager
    async def flowing(self) -> AsyncIterator[None]:
        """Meanwhile lines are written soon after they came, whether more come or not."""
        task = asyncio.create_task(self._keep_flushing(), name=f"log of deployment {self._deployment_id}")
        try:
            yield
        finally:
            await end_tasks(task)

    async def _keep_flushing(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            if time.monotonic() - self._fed_at > _PATIENCE_SECONDS:
                self.end_lines()
            try:
                await self.flush()
            except (LeaseLost, SQLAlchemyError) as error:
                # Whoever writes next is told.
                self._fault = error
                return

    def _add(self, stream: str, lines: Sequence[str]) -> None:
        for line in lines:
            self._left -= _LINE_BYTES
            self._rows.append(self._row(stream, line))

    def _row(self, stream: str, text: str) -> dict[str, Any]:
        at = format_time(utc_now())
        return {"deployment_id": self._deployment_id, "at": at, "stream": stream, "text": text}
