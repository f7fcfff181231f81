"""Reads the output of a process from a pipe."""

import asyncio
import os
from types import TracebackType

from deployer.processes.confinement import Owner

_CHUNK_BYTES = 65536


class OutputPipe:
    """A pipe that the loop reads on demand, chunk by chunk. A full pipe blocks the process."""

    def __init__(self, owner: Owner | None) -> None:
        self._reader, self.writer = os.pipe2(os.O_CLOEXEC)
        self._is_writer_open = True
        self._is_stopping = False
        self._waiter: asyncio.Future[None] | None = None
        os.set_blocking(self._reader, False)
        if owner is not None:
            # Without this, a script could not open /dev/stderr, which leads to the pipe.
            os.fchown(self.writer, owner.uid, owner.gid)

    def __enter__(self) -> "OutputPipe":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_writer()
        os.close(self._reader)

    def close_writer(self) -> None:
        """Close Pharos' copy of the writing end after the process has started: the output ends when the last
        copy is closed."""
        if self._is_writer_open:
            os.close(self.writer)
            self._is_writer_open = False

    def stop_after_buffered(self) -> None:
        """End the output after the data that is in the pipe now, even if a process still has the other end
        open."""
        self._is_stopping = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def read(self) -> bytes:
        """Return up to 64 KiB of output. Return b"" at the end."""
        while True:
            try:
                return os.read(self._reader, _CHUNK_BYTES)
            except BlockingIOError:
                if self._is_stopping:
                    return b""
            await self._wait_readable()

    async def _wait_readable(self) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = awaited = loop.create_future()
        loop.add_reader(self._reader, lambda: None if awaited.done() else awaited.set_result(None))
        try:
            await awaited
        finally:
            loop.remove_reader(self._reader)
            self._waiter = None
