"""Sends batches to the brokers: idempotent, acknowledged by all in-sync replicas, in order in each partition.

While a broker processes one request, the next batches fill. The next request then has the first batch of each partition
that the broker leads. So a busy broker costs little per record. aiokafka provides the connections and the cluster's
metadata; its own producer needs a task, futures and rounds of its sender for each batch (decisions/0055).
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    DuplicateSequenceNumber,
    InvalidTimestampError,
    KafkaConnectionError,
    KafkaError,
    MessageSizeTooLargeError,
    NoError,
    RecordListTooLargeError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
    for_code,
)
from aiokafka.protocol.transaction import InitProducerIdRequest
from aiokafka.structs import TopicPartition

from storage_backends.end_task import close_within
from storage_backends.event_log.kafka_batch import RecordBatch
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_produce import Produce

logger = logging.getLogger(__name__)

# A batch is full at this many bytes of records, before compression. If the brokers refuse a batch of a topic as too
# large, the limit for that topic is lowered.
_BATCH_BYTES = 512 * 1024
# Maximum bytes of records in one request, before compression. If the first batch is larger, it is sent alone.
_REQUEST_BYTES = 8 * 1024 * 1024
# How long a batch waits for more records. Nobody notices this delay, and it halves the cost at full load.
_LINGER_SECONDS = 0.005
# The accuracy of the event loop's timers.
_TIMER_SECONDS = 0.001
_RETRY_SECONDS = 0.1
_CLOSE_SECONDS = 1.0
_SEQUENCE_NUMBERS = 2**31
# A broker that takes longer than this for a request receives no records without a key.
_SLOW_SECONDS = 0.25
# With these errors, the broker has appended nothing, so the sequence numbers can be reused. After an attempt that may
# have succeeded, they cannot be reused: the broker would take another batch with these numbers for a repetition, and
# drop it.
TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)
_NOTHING_APPENDED = (*TOO_LARGE, InvalidTimestampError, TopicAuthorizationFailedError)


class SharedFuture(asyncio.Future[None]):
    """A future that all appends to a batch await. If one request gives up, the future must not be cancelled for the
    others."""

    def cancel(self, msg: Any | None = None) -> bool:
        return False


class PendingBatch:
    """Records of one partition that are sent together, and kept until the brokers have acknowledged them."""

    __slots__ = ("target", "records", "done", "size", "opened_at", "encoded", "is_repeated", "_queue")

    def __init__(
        self, target: TopicPartition, done: SharedFuture, queue: "deque[PendingBatch]", max_bytes: int
    ) -> None:
        self.target = target
        self._queue = queue
        self.records = RecordBatch(max_bytes, time.time_ns() // 1_000_000)
        self.done = done
        """A future that the log completes when the batch is stored or has failed."""
        self.size = 0
        """Size of the records in memory in bytes."""
        self.opened_at = time.monotonic()
        self.encoded: bytes | None = None
        """The encoded batch. Set when the batch is sent for the first time. Every retry sends the same bytes, so the
        brokers store the batch once."""
        self.is_repeated = False
        """True if an earlier attempt may have stored the batch."""

    def withdraw(self) -> bool:
        """Withdraw the batch, so that it is never sent. Return False if it was sent already: the brokers may store it
        at any time."""
        if self.encoded is not None:
            return False
        self._queue.remove(self)
        return True


class _Partition:
    """The batches of one partition, in order. The first batch may be in flight."""

    __slots__ = ("target", "batches", "sequence", "retry_at")

    def __init__(self, target: TopicPartition) -> None:
        self.target = target
        self.batches: deque[PendingBatch] = deque()
        self.sequence = 0
        """The sequence number for the first record of the next batch that is encoded."""
        self.retry_at = 0.0


Finished = Callable[["KafkaProducer", PendingBatch, Exception | None], None]


class KafkaProducer:
    """Sends batches under one producer ID, on one event loop. `finished` is called once for each batch: after it was
    acknowledged, or with its error."""

    failure: str | None = None
    """Why this producer must be replaced; None while it works."""

    def __init__(self, connection: KafkaConnection, request_seconds: float, finished: Finished) -> None:
        """Raises the errors of `KafkaConnection.client_options`."""
        self._loop = asyncio.get_running_loop()
        self._timeout_ms = int(request_seconds * 1000)
        self.client = AIOKafkaClient(**connection.client_options(), request_timeout_ms=self._timeout_ms)
        self._finished = finished
        self._producer_id, self._epoch = -1, -1
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._batch_bytes: dict[str, int] = {}
        # Partitions that have a batch, of which none is in flight. The first partition has waited the longest.
        self._waiting: dict[_Partition, None] = {}
        # The brokers that are processing a request, and the time at which each request was sent.
        self._busy_brokers: dict[int, float] = {}
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._requests: set[asyncio.Task[None]] = set()

    async def start(self, topics: Sequence[str]) -> None:
        """Connect, and get a producer ID. Raises `KafkaError`, also if the cluster assigns no ID within the timeout of
        a request."""
        await self.client.bootstrap()
        await self.client.set_topics(topics)
        give_up_at = time.monotonic() + self._timeout_ms / 1000
        while True:
            node = self.client.get_random_node()
            answer = await self.client.send(node, InitProducerIdRequest(None, 0))
            error = for_code(answer.error_code)
            if error is NoError:
                self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
                return
            if not error.retriable or time.monotonic() > give_up_at:
                raise error
            await asyncio.sleep(_RETRY_SECONDS)

    async def close(self) -> None:
        """Close the connections. Batches that are not acknowledged fail with `KafkaError`."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for request in self._requests:
            request.cancel()
        await close_within(_CLOSE_SECONDS, self.client.close())
        for partition in self._partitions.values():
            while partition.batches:
                self._finished(self, partition.batches.popleft(), KafkaError("The producer was closed."))

    def append(self, target: TopicPartition, key: bytes, meta: bytes, value: bytes) -> PendingBatch:
        """Add a record to the newest batch of the partition, or to a new one."""
        partition = self._partitions.get(target)
        if partition is None:
            partition = self._partitions[target] = _Partition(target)
        now_ms = time.time_ns() // 1_000_000
        if partition.batches:
            newest = partition.batches[-1]
            if newest.encoded is None and newest.records.append(key, meta, value, now_ms):
                return newest
        else:
            self._waiting[partition] = None
            self._wake_at(time.monotonic() + _LINGER_SECONDS)
        max_bytes = self._batch_bytes.get(target.topic, _BATCH_BYTES)
        opened = PendingBatch(target, SharedFuture(loop=self._loop), partition.batches, max_bytes)
        opened.records.append(key, meta, value, now_ms)
        partition.batches.append(opened)
        return opened

    def can_send(self, target: TopicPartition) -> bool:
        """Return True if a record for this partition would probably be sent at once. If False, the caller should choose
        another partition."""
        partition = self._partitions.get(target)
        if partition is not None and partition.retry_at > time.monotonic():
            return False
        broker = self.client.cluster.leader_for_partition(target)
        if broker is None or broker < 0:
            return False
        since = self._busy_brokers.get(broker)
        return since is None or time.monotonic() - since < _SLOW_SECONDS

    def find_failure(self) -> str | None:
        """Return why this producer must be replaced; None while it works."""
        if self.failure is None and self.client._sync_task is not None and self.client._sync_task.done():
            # Without this task, the client would never notice that partitions have new leaders.
            self.failure = "a task of its client has ended"
        return self.failure

    def _send_waiting(self) -> None:
        """Send the waiting batches to each broker that is not busy, except if all batches for a broker may still wait
        for more records."""
        if self._is_closed:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = time.monotonic()
        by_broker: dict[int, list[_Partition]] = {}
        for partition in list(self._waiting):
            if not partition.batches:
                # All batches of the partition were withdrawn.
                del self._waiting[partition]
                continue
            broker = self._find_leader(partition, now)
            if broker is None:
                self._wake_at(partition.retry_at)
            elif broker not in self._busy_brokers:
                by_broker.setdefault(broker, []).append(partition)
        for broker, partitions in by_broker.items():
            due_at = min(each.batches[0].opened_at for each in partitions) + _LINGER_SECONDS
            if due_at - now < _TIMER_SECONDS or any(len(each.batches) > 1 for each in partitions):
                self._start_request(broker, partitions)
            else:
                self._wake_at(due_at)

    def _wake_at(self, at: float) -> None:
        """Check for batches to send at this monotonic time, or earlier."""
        if self._timer is None or at < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = at
            self._timer = self._loop.call_later(max(0.0, at - time.monotonic()), self._send_waiting)

    def _find_leader(self, partition: _Partition, now: float) -> int | None:
        """Return the broker that leads the partition. None if it is unknown, or if a retry has to wait."""
        if partition.retry_at > now:
            return None
        broker: int | None = self.client.cluster.leader_for_partition(partition.target)
        if broker is None or broker < 0:
            self.client.force_metadata_update()
            partition.retry_at = now + _RETRY_SECONDS
            return None
        return broker

    def _start_request(self, broker: int, partitions: Iterable[_Partition]) -> None:
        sent: dict[TopicPartition, _Partition] = {}
        size = 0
        for partition in partitions:
            batch = partition.batches[0]
            size += batch.size
            if size > _REQUEST_BYTES and sent:
                break
            del self._waiting[partition]
            try:
                self._encode(partition, batch)
            except Exception as failure:
                # Memory has probably run out. The other partitions must not wait for this batch.
                logger.exception("%s/%d: a batch cannot be encoded", *partition.target)
                self._finish(partition, KafkaError(repr(failure)))
                continue
            sent[partition.target] = partition
        if not sent:
            self._wake_at(time.monotonic() + _RETRY_SECONDS)
            return
        self._busy_brokers[broker] = time.monotonic()
        request = self._loop.create_task(self._send(broker, sent))
        self._requests.add(request)
        request.add_done_callback(self._requests.discard)

    def _encode(self, partition: _Partition, batch: PendingBatch) -> None:
        if batch.encoded is None:
            batch.encoded = batch.records.encode(self._producer_id, self._epoch, partition.sequence)
            partition.sequence = (partition.sequence + batch.records.count) % _SEQUENCE_NUMBERS

    async def _send(self, broker: int, sent: dict[TopicPartition, _Partition]) -> None:
        """Send the first batch of each of these partitions to the broker, and handle the response."""
        batches = {target: partition.batches[0].encoded or b"" for target, partition in sent.items()}
        try:
            response = await self.client.send(broker, Produce(self._timeout_ms, batches))
            # A batch whose partition is missing in the response is sent again.
            errors = [for_code(response.codes.get(target, RequestTimedOutError.errno)) for target in sent]
        except KafkaError as failure:
            errors = [failure] * len(sent)
        except Exception as failure:
            # It is unknown what the broker has received. uvloop raises `RuntimeError` for a connection that was just
            # lost. If the broker counted as busy forever, its partitions would stop.
            logger.warning("a produce request failed: %r", failure)
            errors = [KafkaConnectionError(repr(failure))] * len(sent)
        del self._busy_brokers[broker]
        for partition, error in zip(sent.values(), errors, strict=True):
            self._handle(partition, error)
        self._send_waiting()

    def _handle(self, partition: _Partition, error: KafkaError | type[KafkaError]) -> None:
        """Finish the batch that was in flight, or keep it for another attempt."""
        # If a broker reports a duplicate, it has stored the batch, and its first response was lost.
        is_stored = error in (NoError, DuplicateSequenceNumber)
        if not is_stored and error.retriable:
            partition.batches[0].is_repeated = True
            partition.retry_at = time.monotonic() + _RETRY_SECONDS
            self.client.force_metadata_update()
        else:
            failure = error() if isinstance(error, type) else error
            batch = partition.batches[0]
            if isinstance(failure, TOO_LARGE) and batch.records.count > 1:
                # Each record alone may be small enough.
                half = min(self._batch_bytes.get(partition.target.topic, _BATCH_BYTES), batch.size) // 2
                self._batch_bytes[partition.target.topic] = half
            if isinstance(failure, _NOTHING_APPENDED) and not batch.is_repeated:
                partition.sequence = (partition.sequence - batch.records.count) % _SEQUENCE_NUMBERS
            elif not is_stored:
                # The broker found a gap in the sequence numbers, or the next batch would cause a gap.
                self.failure = type(failure).__name__
            self._finish(partition, None if is_stored else failure)
            return
        self._waiting[partition] = None

    def _finish(self, partition: _Partition, failure: KafkaError | None) -> None:
        """Remove the first batch of the partition, and report the batch as finished. The next batch waits for its
        turn."""
        batch = partition.batches.popleft()
        if partition.batches:
            self._waiting[partition] = None
        try:
            self._finished(self, batch, failure)
        except Exception:
            # The other batches in the response must be finished too.
            logger.exception("the log could not finish a batch")
