"""The size of a connection's reads."""

import asyncio
from collections.abc import Callable

import pytest
import uvloop

from connection_bounds.bounded_reads import READ_BYTES, bound_buffers


class Receiver(asyncio.Protocol):
    """Collects the received pieces."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.is_writing_paused = False
        self.ended = asyncio.Event()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        bound_buffers(transport, self, 0)

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)

    def pause_writing(self) -> None:
        self.is_writing_paused = True

    def resume_writing(self) -> None:
        self.is_writing_paused = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_reads_are_small_and_complete_and_writing_pauses_at_once(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    sent = bytes(range(256)) * 16_384

    async def run() -> None:
        receivers: list[Receiver] = []

        def make_receiver() -> Receiver:
            receivers.append(Receiver())
            return receivers[-1]

        server = await asyncio.get_running_loop().create_server(make_receiver, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        other, second = await asyncio.open_connection(*server.sockets[0].getsockname())
        second.write(b"of another connection")
        writer.write(sent)
        await writer.drain()
        async with asyncio.timeout(60):
            while sum(len(piece) for piece in receivers[0].pieces) < len(sent):
                await asyncio.sleep(0.01)
        receiver = receivers[0]
        assert (
            b"".join(receiver.pieces) == sent and max(len(piece) for piece in receiver.pieces) <= READ_BYTES
        )
        assert b"".join(receivers[1].pieces) == b"of another connection"
        assert receiver.transport is not None
        while not receiver.is_writing_paused:
            receiver.transport.write(bytes(65536))
        assert len(await reader.readexactly(65536)) == 65536
        writer.transport.abort()
        second.close()
        async with asyncio.timeout(60):
            await receiver.ended.wait()
        server.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run())
