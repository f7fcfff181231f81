"""A TCP relay whose connections can stop carrying data without closing, as after a firewall has dropped its state."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class TcpProxy:
    """A relay made by `tcp_proxy`."""

    def __init__(self, port: int) -> None:
        self.port = 0
        self._to = port
        self._silent: set[asyncio.Event] = set()
        self._open: set[asyncio.Event] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def open(self) -> int:
        """The number of open connections."""
        return len(self._open)

    def silence(self) -> int:
        """Stop the data of all open connections; return their number. New connections work."""
        self._silent |= self._open
        return len(self._open)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay one connection in both directions."""
        connection = asyncio.Event()
        self._open.add(connection)
        try:
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.close()
            return
        pumps = [
            asyncio.create_task(self._pump(connection, reader, to_writer)),
            asyncio.create_task(self._pump(connection, to_reader, writer)),
        ]
        self._tasks.update(pumps)
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        await asyncio.wait(pumps)
        self._tasks.difference_update(pumps)
        self._open.discard(connection)
        for end in (writer, to_writer):
            end.close()

    async def _pump(
        self, connection: asyncio.Event, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if connection not in self._silent:
                    writer.write(data)
                    await writer.drain()


@asynccontextmanager
async def tcp_proxy(port: int) -> AsyncIterator[TcpProxy]:
    """Yield a relay to this loopback port."""
    proxy = TcpProxy(port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        for task in list(proxy._tasks):
            task.cancel()
        await asyncio.sleep(0.05)
