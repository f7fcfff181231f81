"""A relay in front of a Kafka broker that replaces OffsetFetch responses and records the commits of groups."""

import asyncio
import contextlib
import io
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiokafka.protocol import commit

_OFFSET_COMMIT, _OFFSET_FETCH = 8, 9
NO_PARTITIONS = -1000
"""Used in place of an error code: a response without an error and without partitions."""
# Clients with this ID always get the broker's own responses.
OBSERVER = "observer"


@dataclass(slots=True)
class KafkaProxy:
    """A relay made by `kafka_proxy`; the broker must advertise `port`."""

    broker_port: int
    port: int = 0
    code: int = 0
    """The error code of the response that replaces each OffsetFetch response; 0 replaces none."""
    replaced: int = 0
    """The number of replaced responses."""
    commits: list[tuple[str, int, int]] = field(default_factory=list)
    """Topic, partition and offset of each commit that was sent, in this order."""
    tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay one connection."""
        try:
            from_broker, to_broker = await asyncio.open_connection("127.0.0.1", self.broker_port)
        except OSError:
            writer.close()
            return
        replacements: dict[int, bytes] = {}
        pumps = {
            asyncio.create_task(self._relay_requests(reader, to_broker, replacements)),
            asyncio.create_task(self._relay_responses(from_broker, writer, replacements)),
        }
        self.tasks |= pumps
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        await asyncio.wait(pumps)
        self.tasks -= pumps
        for end in (writer, to_broker):
            end.close()

    async def _relay_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, replacements: dict[int, bytes]
    ) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while frame := await _read_frame(reader):
                api, version, correlation, length = struct.unpack_from(">hhih", frame)
                client, body = frame[10 : 10 + length], frame[10 + length :]
                if api == _OFFSET_COMMIT:
                    self._record_commits(version, body)
                elif api == _OFFSET_FETCH and self.code and client != OBSERVER.encode():
                    replacements[correlation] = _encode_offset_fetch(version, body, self.code)
                await _write_frame(writer, frame)

    async def _relay_responses(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, replacements: dict[int, bytes]
    ) -> None:
        # A connection's responses must come in the order of its requests, so the broker responds to all of them.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while frame := await _read_frame(reader):
                body = replacements.pop(int.from_bytes(frame[:4]), None)
                self.replaced += body is not None
                await _write_frame(writer, frame if body is None else frame[:4] + body)

    def _record_commits(self, version: int, body: bytes) -> None:
        request = getattr(commit, f"OffsetCommitRequest_v{version}").decode(io.BytesIO(body))
        for topic, partitions in request.topics:
            self.commits += [(topic, partition, offset) for partition, offset, *_ in partitions]


def _encode_offset_fetch(version: int, body: bytes, code: int) -> bytes:
    """Encode the response of a coordinator that is starting or moving."""
    request = getattr(commit, f"OffsetFetchRequest_v{version}").decode(io.BytesIO(body))
    response = getattr(commit, f"OffsetFetchResponse_v{version}")
    throttle = (0,) if version >= 3 else ()
    if version >= 2:
        encoded: bytes = response(*throttle, [], 0 if code == NO_PARTITIONS else code).encode()
        return encoded
    topics = [
        (topic, [] if code == NO_PARTITIONS else [(partition, -1, "", code) for partition in partitions])
        for topic, partitions in request.topics
    ]
    encoded = response(topics).encode()
    return encoded


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(4))
    return await reader.readexactly(size)


async def _write_frame(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(len(frame).to_bytes(4) + frame)
    await writer.drain()


@asynccontextmanager
async def kafka_proxy(broker_port: int) -> AsyncIterator[KafkaProxy]:
    """Yield a relay to the broker on this loopback port."""
    proxy = KafkaProxy(broker_port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        for task in list(proxy.tasks):
            task.cancel()
        await asyncio.sleep(0.05)
