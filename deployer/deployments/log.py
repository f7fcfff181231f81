"""Writes a deployment's log: cut into lines, masked, limited in size, and no faster than the database accepts."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, insert, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.engine import Sessions
from control_domain.tables.deployments import DeploymentLine
from deployer.drivers.interface import DeployFailed, Stream
from deployer.leases import Lease, LeaseLost, lock_lease
from deployer.log_lines.lines import LineSplitter
from deployer.log_lines.masking import Mask
from deployer.retry_while_leased import retry_while_leased
from deployer.shield import end_tasks, shielded
from pipeline_contracts.deploy_states import DeploymentStep
from pipeline_contracts.times import format_time

_BATCH_ROWS = 500
_FLUSH_SECONDS = 0.25
# An unfinished line, such as a question, is stored after this time.
_OPEN_LINE_SECONDS = 1.0
# Each line counts this many bytes in addition to its text: otherwise ten million empty lines would count as nothing.
_LINE_BYTES = 64


def utc_now() -> datetime:
    return datetime.now(UTC)


class DeploymentLog:
    """A `LogSink` that stores the lines of a deployment's log. If the database is slow, callers wait."""

    def __init__(
        self,
        sessions: Sessions,
        lease: Lease,
        deployment_id: int,
        mask: Mask,
        max_bytes: int,
        record_step: Callable[[DeploymentStep, tuple[str, str] | None], Awaitable[None]],
    ) -> None:
        self._sessions = sessions
        self._lease = lease
        self._deployment_id = deployment_id
        self._mask = mask
        self._record_step = record_step
        self._left = max_bytes
        self._max_bytes = max_bytes
        self._splitters = {"stdout": LineSplitter(mask), "stderr": LineSplitter(mask)}
        self._fed_at = 0.0
        self._rows: list[dict[str, Any]] = []
        self._sent = 0
        """Number of lines that were sent to the database in a transaction whose commit is not confirmed."""
        self._sent_after = 0
        """The ID of the newest line that was stored before the unconfirmed transaction."""
        self._writing = asyncio.Lock()
        self._fault: BaseException | None = None

    def hide(self, text: str) -> str:
        """Return the text with the values of variables masked."""
        return self._mask.hide(text)

    async def begin_step(self, step: DeploymentStep, commit: tuple[str, str] | None = None) -> None:
        """See `LogSink`."""
        await self._record_step(step, commit)

    async def write(self, stream: Stream, data: bytes) -> None:
        """See `LogSink`. Raises the error of the last flush as well."""
        if self._fault is not None:
            # The lease is over, so a step that prints must be ended at once.
            raise self._fault
        self._fed_at = time.monotonic()
        # Count the printed bytes. Most of a line without an end is dropped, but reading it costs as much.
        self._left -= len(data)
        self._add(stream, self._splitters[stream].feed(data))
        if self._left < 0:
            await self.flush()
            raise DeployFailed(
                f"The steps printed more than {self._max_bytes / 2**20:.0f} MiB: the deployment was ended. "
                "Have them print less, or send it to a file."
            )
        if len(self._rows) >= _BATCH_ROWS:
            await self.flush()

    async def write_line(self, text: str) -> None:
        """See `LogSink`. The line follows all earlier output."""
        self.end_lines()
        for line in self._mask.hide(text).splitlines() or [""]:
            self._rows.append(self._row("system", line))
        await self.flush()

    def end_lines(self) -> None:
        """Store unfinished lines as complete lines."""
        for stream, splitter in self._splitters.items():
            self._add(stream, splitter.flush())

    async def flush(self) -> None:
        """Store all lines. While the database is away, wait as long as the lease lasts. Raises `LeaseLost` and
        database errors."""
        if self._fault is not None:
            raise self._fault
        async with self._writing:
            # While the database is away, this method blocks its callers, and a step blocks on its full pipe: no line
            # is lost, and lines do not pile up.
            if self._sent:
                await self._store()
            if self._rows:
                await self._store()

    async def _store(self) -> None:
        await retry_while_leased(self._lease, self._insert)

    @shielded
    async def _insert(self) -> None:
        """Store the lines exactly once, also after a cancellation, and after a commit whose confirmation was lost."""
        rows = self._rows[: self._sent or None]
        async with self._sessions() as session, session.begin():
            # Readers order lines by ID, so no other process may write lines meanwhile. The lock also waits for a
            # commit that the database has not finished yet.
            await lock_lease(session, self._lease)
            if not (self._sent and await self._is_stored(session, rows[0])):
                mine = DeploymentLine.deployment_id == self._deployment_id
                self._sent_after = await session.scalar(select(func.max(DeploymentLine.id)).where(mine)) or 0
                self._sent = len(rows)
                await session.execute(insert(DeploymentLine), rows)
        del self._rows[: len(rows)]
        self._sent = 0

    async def _is_stored(self, session: AsyncSession, row: Mapping[str, Any]) -> bool:
        equal = (getattr(DeploymentLine, name) == value for name, value in row.items())
        query = select(DeploymentLine.id).where(*equal, DeploymentLine.id > self._sent_after).limit(1)
        return await session.scalar(query) is not None

    @asynccontextmanager
    async def flushing(self) -> AsyncIterator[None]:
        """Within the context, store lines soon after they were written, even if no further line follows."""
        task = asyncio.create_task(self._keep_flushing(), name=f"log of deployment {self._deployment_id}")
        try:
            yield
        finally:
            await end_tasks(task)

    async def _keep_flushing(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            if time.monotonic() - self._fed_at > _OPEN_LINE_SECONDS:
                self.end_lines()
            try:
                await self.flush()
            except (LeaseLost, SQLAlchemyError) as error:
                # The next `write` or `flush` raises this error.
                self._fault = error
                return

    def _add(self, stream: str, lines: Sequence[str]) -> None:
        for line in lines:
            self._left -= _LINE_BYTES
            self._rows.append(self._row(stream, line))

    def _row(self, stream: str, text: str) -> dict[str, Any]:
        at = format_time(utc_now())
        return {"deployment_id": self._deployment_id, "at": at, "stream": stream, "text": text}
