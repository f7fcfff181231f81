"""The event log on Kafka, its writing side: one open batch a partition, all copies in sync, idempotent.

A batch stays open for more records until aiokafka takes it for a produce request. While the brokers work on one
request the next ones fill, so a batch carries as many records as came in meanwhile: under load a produce request
costs a fraction of an ingest request. `send()` per record costs up to 1.7 times the CPU (decisions/0041).
"""

import asyncio
import logging
import time
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from pipeline_contracts.errors import LogFull, StorageUnavailable
from storage_backends.end_task import close_within, end_task
from storage_backends.event_log.kafka_batch import GrowingBatch, set_compression
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_start import start_client
from storage_backends.event_log.kafka_topic_ids import TopicDescription, describe_topics
from storage_backends.event_log.kafka_topics import read_topics

logger = logging.getLogger(__name__)

META_HEADER = "pharos"

# Bytes of records, before compression, that close a batch.
_BATCH_BYTES = 512 * 1024
# How long a batch waits for company: shorter than anybody notices, long enough to halve the cost at full load.
_LINGER_MS = 5
_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 5.0
# A batch that waits longer than this makes the edge unready, before its requests time out.
_STALLED_SECONDS = 2.0
# How often the topics are looked at. One that is missing once may be on a broker that is only starting.
_WATCH_SECONDS = 10.0
_MISSING_OFTEN = 2


class _Acknowledged(asyncio.Future[None]):
    """Shared by all records of a batch; a request that gives up must not cancel it for the others."""

    def cancel(self, msg: Any | None = None) -> bool:
        return False


class _Open:
    """A batch that may still grow, and who waits for it."""

    __slots__ = ("batch", "done", "size", "begun")

    def __init__(self, batch: GrowingBatch, done: _Acknowledged, begun: float) -> None:
        self.batch = batch
        self.done = done
        self.size = 0
        self.begun = begun


class KafkaEventLog:
    """Connects in the background and again after faults; until then it refuses appends. Made by
    `open_kafka_log`."""

    def __init__(
        self, connection: KafkaConnection, topics: Sequence[str], buffer_bytes: int, timeout: float
    ) -> None:
        self._connection = connection
        self._topics = tuple(topics)
        self._buffer_bytes = buffer_bytes
        self._timeout = timeout
        set_compression()
        self._loop = asyncio.get_running_loop()
        self._producer: AIOKafkaProducer | None = None
        self._partitions: Mapping[str, int] = {}
        self._described: Mapping[str, TopicDescription] = {}
        self._open: dict[tuple[str, int], _Open] = {}
        self._unacknowledged: dict[_Open, None] = {}
        self._held = 0
        # Batches that were given up on and lie with aiokafka still, and when the last one was given up on.
        self._late = 0
        self._given_up = -_STALLED_SECONDS
        self._tasks: set[asyncio.Task[None]] = set()
        # Producers that are replaced, until they have delivered or given up what they hold.
        self._retiring: set[asyncio.Task[None]] = set()
        self._closing = False
        self._away = "is not connected to the brokers yet"
        self._connecting = self._loop.create_task(self._connect(), name="kafka producer")
        self._watching = self._loop.create_task(self._watch(), name="kafka topics")

    def append(self, topic: str, key: bytes, meta: bytes, value: bytes) -> "asyncio.Future[None]":
        if self._producer is None or self._closing:
            raise StorageUnavailable(f"The event log {self._away}.")
        size = len(value) + len(meta) + len(key) + 64
        if self._held + size > self._buffer_bytes and self._held:
            raise LogFull("Too much waits for the brokers.")
        partition = zlib.crc32(key) % self._partitions[topic]
        place = (topic, partition)
        headers = [(META_HEADER, meta)]
        into = self._open.get(place)
        if into is None or into.batch.append(timestamp=None, key=key, value=value, headers=headers) is None:
            into = self._begin(place, self._producer)
            into.batch.append(timestamp=None, key=key, value=value, headers=headers)
        into.size += size
        self._held += size
        return into.done

    def stalled_reason(self) -> str | None:
        if self._producer is None:
            return self._away
        if self._held >= self._buffer_bytes:
            return "too much waits for the brokers"
        now = time.monotonic()
        oldest = next(iter(self._unacknowledged), None)
        waits = oldest is not None and now - oldest.begun > _STALLED_SECONDS
        if waits or self._late or now - self._given_up < _STALLED_SECONDS:
            return "the brokers do not acknowledge"
        return None

    def stored_bytes(self) -> int:
        """Bytes of records that wait for the brokers."""
        return self._held

    async def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._away = "is closing"
        await end_task(self._watching)
        await end_task(self._connecting)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._timeout)
        for retiring in list(self._retiring):
            await end_task(retiring)
        if self._producer is not None:
            await close_within(1.0, self._producer.stop())
            self._producer = None

    def _begin(self, place: tuple[str, int], producer: AIOKafkaProducer) -> _Open:
        opened = _Open(GrowingBatch(_BATCH_BYTES), _Acknowledged(loop=self._loop), time.monotonic())
        self._open[place] = opened
        self._unacknowledged[opened] = None
        task = self._loop.create_task(self._deliver(producer, place, opened))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return opened

    async def _deliver(self, producer: AIOKafkaProducer, place: tuple[str, int], sent: _Open) -> None:
        """Hand the batch over, wait for the brokers, tell those who wait."""
        topic, partition = place
        deadline = sent.begun + self._timeout
        failure: BaseException | None = None
        delivered: asyncio.Future[Any] | None = None
        try:
            async with asyncio.timeout_at(self._loop.time() + self._timeout):
                delivered = await producer.send_batch(sent.batch, topic, partition=partition)
        except Exception as error:
            # Whatever it is: those who wait for the batch must be told.
            failure = error
        # From here on nothing is added: those who would wait longer than the others begin the next one.
        if delivered is not None:
            await asyncio.wait({delivered}, timeout=max(0.1, deadline - time.monotonic()))
            failure = TimeoutError() if not delivered.done() else delivered.exception()
        sent.batch.close()
        if self._open.get(place) is sent:
            del self._open[place]
        self._unacknowledged.pop(sent)
        if failure is None:
            self._held -= sent.size
            sent.done.set_result(None)
            return
        logger.warning(
            "%s/%d: %d records are not acknowledged: %r",
            topic,
            partition,
            sent.batch.record_count(),
            failure,
        )
        sent.done.set_exception(StorageUnavailable("The brokers do not acknowledge."))
        # Nobody may be waiting any more; the failure is logged above.
        sent.done.exception()
        self._given_up = time.monotonic()
        if delivered is not None and not delivered.done():
            # It lies in aiokafka's queue and goes out when the brokers come back: it counts until then.
            self._late += 1
            delivered.add_done_callback(lambda late: self._release(late, sent.size))
            return
        self._held -= sent.size
        if isinstance(failure, KafkaError) and not failure.retriable:
            # The brokers saw a gap in the numbers of this producer, or aiokafka has given up: begin anew.
            self._reconnect(producer, f"lost the brokers ({type(failure).__name__})")

    def _release(self, late: "asyncio.Future[Any]", size: int) -> None:
        self._held -= size
        self._late -= 1
        if not late.cancelled():
            late.exception()

    async def _watch(self) -> None:
        """Notice topics that were recreated or deleted while this runs: the next producer is made for what is there
        then."""
        missing = 0
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            if (producer := self._producer) is None:
                continue
            try:
                described = await describe_topics(producer.client, self._topics, self._timeout)
            except StorageUnavailable:
                continue
            missing = 0 if len(described) == len(self._described) else missing + 1
            changed = [topic for topic in described if described[topic] != self._described.get(topic)]
            if changed or missing >= _MISSING_OFTEN:
                missing = 0
                gone = changed or [topic for topic in self._topics if topic not in described]
                logger.error(
                    "Kafka: the topic %s was recreated or deleted by hand. Connecting again; run `pharos migrate` to "
                    "make topics with the right settings.",
                    gone[0],
                )
                self._reconnect(producer, "connects again because its topics changed")

    def _reconnect(self, failed: AIOKafkaProducer, reason: str) -> None:
        if self._producer is None or self._producer is not failed or self._closing:
            return
        self._producer = None
        self._away = reason
        # Records of the next producer must not join batches that this one may never deliver.
        self._open.clear()
        # Closing waits for batches that may have no partition any more; other topics must not wait for them.
        retiring = self._loop.create_task(
            close_within(self._timeout, failed.stop()), name="old kafka producer"
        )
        self._retiring.add(retiring)
        retiring.add_done_callback(self._retiring.discard)
        self._connecting = self._loop.create_task(self._connect(), name="kafka producer")

    async def _connect(self) -> None:
        """Make a producer, however long it takes."""
        pause = _FIRST_PAUSE
        while True:
            try:
                producer = await self._new_producer()
            except (KafkaError, StorageUnavailable, OSError, TimeoutError, ValueError) as error:
                self._away = f"cannot be reached ({error})"
                logger.warning("Kafka: %s; trying again in %.1f s", error, pause)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                self._producer = producer
                return

    async def _new_producer(self) -> AIOKafkaProducer:
        described = await read_topics(self._connection, self._topics)
        producer = AIOKafkaProducer(
            **self._connection.client_options(),
            acks="all",
            enable_idempotence=True,
            compression_type=None,
            linger_ms=_LINGER_MS,
            request_timeout_ms=int(self._timeout * 1000),
        )
        await start_client(producer.start, producer.stop, self._timeout)
        self._described = described
        self._partitions = {topic: found.partitions for topic, found in described.items()}
        return producer


async def open_kafka_log(
    connection: KafkaConnection, topics: Sequence[str], *, buffer_bytes: int, acknowledge_seconds: float
) -> KafkaEventLog:
    """The log of a cluster. The cluster may be away: it is looked for until `close`.

    `buffer_bytes`: bytes of records that may wait for the brokers. `acknowledge_seconds`: until an append that is not
    acknowledged is in doubt.
    """
    return KafkaEventLog(connection, topics, buffer_bytes, acknowledge_seconds)
