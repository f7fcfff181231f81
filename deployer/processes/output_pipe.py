"""The reading end of a process's output."""

import asyncio
import os
from types import TracebackType

from deployer.processes.confinement import Owner

_CHUNK_BYTES = 65536


class OutputPipe:
    """A pipe of which the loop reads, a chunk when it is asked for; a full one makes the process wait."""

    def __init__(self, owner: Owner | None) -> None:
        self._reader, self.writer = os.pipe2(os.O_CLOEXEC)
        self._is_writer_open = True
        self._is_last = False
        self._awaited: asyncio.Future[None] | None = None
        os.set_blocking(self._reader, False)
        if owner is not None:
            # Otherwise a script cannot open /dev/stderr, which leads to it.
            os.fchown(self.writer, owner.uid, owner.gid)

    def __enter__(self) -> "OutputPipe":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_writer()
        os.close(self._reader)

    def close_writer(self) -> None:
        """Our own copy, once the process has its own: the output ends with the last of them."""
        if self._is_writer_open:
            os.close(self.writer)
            self._is_writer_open = False

    def take_last(self) -> None:
        """What is in the pipe now is all that `read` still gives, whoever holds the other end."""
        self._is_last = True
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(None)

    async def read(self) -> bytes:
        """Up to 64 KiB; b"" at the end."""
        while True:
            try:
                return os.read(self._reader, _CHUNK_BYTES)
            except BlockingIOError:
                if self._is_last:
                    return b""
            await self._readable()

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        self._awaited = awaited = loop.create_future()
        loop.add_reader(self._reader, lambda: None if awaited.done() else awaited.set_result(None))
        try:
            await awaited
        finally:
            loop.remove_reader(self._reader)
            self._awaited = None
