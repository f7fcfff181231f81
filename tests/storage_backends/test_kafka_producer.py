"""The producer with scripted brokers: its requests, their times, and its reaction to each response."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError, KafkaError, NodeNotReadyError
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.structs import TopicPartition

from storage_backends.event_log import kafka_producer
from storage_backends.event_log.kafka_batch import RecordBatch
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_produce import Produce, Produced
from storage_backends.event_log.kafka_producer import KafkaProducer, PendingBatch

A, B, C = (TopicPartition("t", number) for number in range(3))
Answer = int | Exception


class Brokers:
    """Replaces aiokafka's client. Each request waits for a response of the test."""

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, int | None] = {A: 1, B: 1, C: 2}
        self.cluster = SimpleNamespace(leader_for_partition=lambda target: self.leaders[target])
        self.metadata_updates = 0
        self._sync_task: asyncio.Task[None] | None = None
        self.requests: asyncio.Queue[tuple[int, dict[TopicPartition, bytes], asyncio.Future[Any]]] = (
            asyncio.Queue()
        )
        self.is_closed = False

    def force_metadata_update(self) -> None:
        self.metadata_updates += 1

    async def send(self, broker: int, request: Produce) -> Produced:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.requests.put_nowait((broker, dict(request._batches), answer))
        return await answer  # type: ignore[no-any-return]

    async def close(self) -> None:
        self.is_closed = True

    async def take(self, answer: Answer | None = 0) -> tuple[int, dict[TopicPartition, bytes]]:
        """Return the broker and the batches of the next request, and respond to it; None sends no response."""
        broker, batches, waiting = await asyncio.wait_for(self.requests.get(), 10)
        if isinstance(answer, Exception):
            waiting.set_exception(answer)
        elif answer is not None:
            waiting.set_result(Produced(dict.fromkeys(batches, answer)))
        self.last = waiting
        return broker, batches


@pytest.fixture
def results() -> list[tuple[PendingBatch, Exception | None]]:
    return []


@pytest.fixture
async def producer(
    results: list[tuple[PendingBatch, Exception | None]], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[KafkaProducer]:
    monkeypatch.setattr(kafka_producer, "_RETRY_SECONDS", 0.01)
    made = KafkaProducer(
        KafkaConnection("127.0.0.1:1"), 5.0, lambda _, batch, failure: results.append((batch, failure))
    )
    made.client = Brokers()
    made._producer_id, made._epoch = 7, 0
    yield made
    await made.close()


def append(producer: KafkaProducer, target: TopicPartition, *values: bytes) -> list[PendingBatch]:
    return [producer.append(target, b"k", b"m", value) for value in values]


def values(encoded: bytes) -> list[bytes]:
    return [record.value for record in DefaultRecordBatch(encoded)]


def sequence(encoded: bytes) -> int:
    return DefaultRecordBatch(encoded).base_sequence  # type: ignore[no-any-return]


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def test_a_broker_gets_all_its_batches_in_one_request_at_a_time(
    producer: KafkaProducer, results: list[tuple[PendingBatch, Exception | None]]
) -> None:
    brokers: Brokers = producer.client
    first = append(producer, A, b"a1", b"a2")
    append(producer, B, b"b1")
    append(producer, C, b"c1")
    assert first[0] is first[1]
    taken = dict([await brokers.take(None), await brokers.take()])
    assert {broker: {t: values(e) for t, e in batches.items()} for broker, batches in taken.items()} == {
        1: {A: [b"a1", b"a2"], B: [b"b1"]},
        2: {C: [b"c1"]},
    }
    # Broker 1 is busy: its next batches fill. Broker 2 is not.
    append(producer, A, b"a3")
    append(producer, C, b"c2")
    broker, batches = await brokers.take()
    assert (broker, {t: values(e) for t, e in batches.items()}) == (2, {C: [b"c2"]})
    append(producer, A, b"a4")
    assert brokers.requests.empty()
    assert not any(batch.target == A for batch, _ in results)


async def test_batches_that_filled_while_the_broker_was_busy_are_sent_when_it_responds(
    producer: KafkaProducer, results: list[tuple[PendingBatch, Exception | None]]
) -> None:
    brokers: Brokers = producer.client
    append(producer, A, b"a1")
    await brokers.take(None)
    busy = brokers.last
    append(producer, A, b"a2")
    append(producer, B, b"b1")
    append(producer, A, b"a3")
    busy.set_result(Produced({A: 0}))
    _, batches = await brokers.take()
    assert {t: values(e) for t, e in batches.items()} == {A: [b"a2", b"a3"], B: [b"b1"]}
    assert [sequence(batches[A]), sequence(batches[B])] == [1, 0]
    await wait_until(lambda: len(results) == 3)
    assert [failure for _, failure in results] == [None] * 3


@pytest.mark.parametrize(
    "answer",
    [
        *(6, 7, 19, 20, 3, 5),
        KafkaConnectionError("gone"),
        NodeNotReadyError("not yet"),
        RuntimeError("not foreseen"),
    ],
)
async def test_transient_errors_are_retried_with_the_same_bytes(
    producer: KafkaProducer, results: list[tuple[PendingBatch, Exception | None]], answer: Answer
) -> None:
    brokers: Brokers = producer.client
    (batch, _) = append(producer, A, b"a1", b"a2")
    _, first = await brokers.take(answer)
    # Never sent before the first one is stored: it would get a sequence number that the broker does not expect.
    (later,) = append(producer, A, b"a3")
    assert later is not batch
    brokers.leaders[A] = 2
    broker, second = await brokers.take(answer)
    assert (broker, second) == (2, first)
    assert results == []
    # The first response was lost: the broker has the batch.
    assert (await brokers.take(46))[1] == first
    _, third = await brokers.take()
    assert (values(third[A]), sequence(third[A])) == ([b"a3"], 2)
    await wait_until(lambda: len(results) == 2)
    assert results == [(batch, None), (later, None)]
    assert brokers.metadata_updates >= 2


async def test_a_partition_that_the_response_lacks_is_tried_again(
    producer: KafkaProducer, results: list[tuple[PendingBatch, Exception | None]]
) -> None:
    brokers: Brokers = producer.client
    append(producer, A, b"a")
    append(producer, B, b"b")
    _, first = await brokers.take(None)
    brokers.last.set_result(Produced({A: 0}))
    assert (await brokers.take())[1] == {B: first[B]}
    await wait_until(lambda: len(results) == 2)


@pytest.mark.parametrize("code", [45, 47, 59, 29, 10, -1, 32000])
async def test_permanent_error_fails_only_its_batch(
    producer: KafkaProducer, results: list[tuple[PendingBatch, Exception | None]], code: int
) -> None:
    brokers: Brokers = producer.client
    (refused,), (stored,) = append(producer, A, b"a"), append(producer, B, b"b")
    await brokers.take(None)
    brokers.last.set_result(Produced({A: code, B: 0}))
    await wait_until(lambda: len(results) == 2)
    failures = dict(results)
    failure = failures[refused]
    assert isinstance(failure, KafkaError)
    assert not failure.retriable
    assert failures[stored] is None


async def test_numbers_of_a_batch_that_was_never_stored_are_used_again(
    producer: KafkaProducer, results: list[tuple[PendingBatch, Exception | None]]
) -> None:
    brokers: Brokers = producer.client
    # Two batches are refused at the first attempt. A third one is refused after an attempt that may have succeeded,
    # which leaves a gap.
    answers: Sequence[tuple[Answer, ...]] = ((10,), (29,), (0,), (7, 29))
    found = []
    for tries in answers:
        append(producer, A, b"1")
        for answer in tries:
            found.append(sequence((await brokers.take(answer))[1][A]))
    await wait_until(lambda: len(results) == len(answers))
    assert found == [0, 0, 0, 1, 1]
    assert producer.failure == "TopicAuthorizationFailedError"
    append(producer, A, b"3")
    assert sequence((await brokers.take())[1][A]) == 2


async def test_batches_become_smaller_until_the_brokers_take_them(
    producer: KafkaProducer, results: list[tuple[PendingBatch, Exception | None]]
) -> None:
    brokers: Brokers = producer.client
    counts: list[list[int]] = []
    for code in (10, 10, 0):
        opened = list(dict.fromkeys(append(producer, A, b"1", b"2", b"3", b"4")))
        for batch in opened:
            # As the log counts it: three bytes a record.
            batch.size = 12 // len(opened)
        counts.append([len(values((await brokers.take(code))[1][A])) for _ in opened])
        await wait_until(lambda: len(results) == sum(map(len, counts)))
    assert counts == [[4], [2, 2], [1, 1, 1, 1]]
    assert [failure for _, failure in results[-4:]] == [None] * 4


async def test_a_batch_that_cannot_be_encoded_stops_no_other_one(
    producer: KafkaProducer,
    results: list[tuple[PendingBatch, Exception | None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brokers: Brokers = producer.client
    encode = RecordBatch.encode

    def fail(self: RecordBatch, *numbers: int) -> bytes:
        monkeypatch.setattr(RecordBatch, "encode", encode)
        raise MemoryError

    monkeypatch.setattr(RecordBatch, "encode", fail)
    (refused,), (stored,) = append(producer, A, b"a1"), append(producer, B, b"b1")
    assert list((await brokers.take())[1]) == [B]
    (later,) = append(producer, A, b"a2")
    assert sequence((await brokers.take())[1][A]) == 0
    await wait_until(lambda: len(results) == 3)
    assert [(batch, failure is None) for batch, failure in results] == [
        (refused, False),
        (stored, True),
        (later, True),
    ]
    assert producer.failure is None


async def test_a_fault_of_the_log_stops_no_other_batch(
    producer: KafkaProducer, results: list[tuple[PendingBatch, Exception | None]]
) -> None:
    brokers: Brokers = producer.client
    note = producer._finished

    def fail_once(*finished: Any) -> None:
        producer._finished = note
        raise KeyError("a fault")

    producer._finished = fail_once
    append(producer, A, b"a1")
    append(producer, B, b"b1")
    await brokers.take()
    append(producer, A, b"a2")
    await brokers.take()
    await wait_until(lambda: len(results) == 2)


async def test_records_avoid_a_partition_that_cannot_send(
    producer: KafkaProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers: Brokers = producer.client
    assert producer.can_send(A)
    for unknown in (None, -1):
        brokers.leaders[A] = unknown
        assert not producer.can_send(A)
    brokers.leaders[A] = 1
    append(producer, B, b"b1")
    await brokers.take(None)
    assert producer.can_send(A)
    monkeypatch.setattr(kafka_producer, "_SLOW_SECONDS", 0.0)
    # The broker of A works on one request for too long.
    assert [producer.can_send(A), producer.can_send(C)] == [False, True]
    monkeypatch.setattr(kafka_producer, "_RETRY_SECONDS", 60.0)
    brokers.last.set_result(Produced({B: 7}))
    await wait_until(lambda: producer.can_send(A))
    assert not producer.can_send(B)


async def test_a_producer_whose_client_lost_a_task_must_be_replaced(producer: KafkaProducer) -> None:
    brokers: Brokers = producer.client
    brokers._sync_task = asyncio.create_task(asyncio.sleep(0))
    assert producer.find_failure() is None
    await brokers._sync_task
    assert producer.find_failure() == "a task of its client has ended"


async def test_a_cluster_that_assigns_no_producer_id_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_producer, "_RETRY_SECONDS", 0.001)

    class Starting(Brokers):
        async def bootstrap(self) -> None:
            return None

        async def set_topics(self, _topics: Sequence[str]) -> None:
            return None

        def get_random_node(self) -> int:
            return 1

        async def send(self, *_: Any) -> Any:
            return SimpleNamespace(error_code=14)

    made = KafkaProducer(KafkaConnection("127.0.0.1:1"), 0.02, lambda *_: None)
    made.client = Starting()
    with pytest.raises(KafkaError):
        await asyncio.wait_for(made.start(["t"]), 10)
    await made.close()


async def test_a_partition_without_a_leader_waits_for_one(producer: KafkaProducer) -> None:
    brokers: Brokers = producer.client
    for unknown in (None, -1):
        brokers.leaders[A] = unknown
        append(producer, A, b"a")
        # Other partitions do not wait.
        append(producer, C, b"c")
        assert (await brokers.take())[0] == 2
        updates = brokers.metadata_updates
        await wait_until(lambda seen=updates: brokers.metadata_updates > seen)  # type: ignore[misc]
        brokers.leaders[A] = 5
        assert (await brokers.take())[0] == 5


async def test_only_a_batch_that_was_never_sent_can_be_withdrawn(
    producer: KafkaProducer, results: list[tuple[PendingBatch, Exception | None]]
) -> None:
    brokers: Brokers = producer.client
    (sent,) = append(producer, A, b"a1")
    await brokers.take(None)
    waiting = brokers.last
    (unsent,) = append(producer, A, b"a2")
    (alone,) = append(producer, B, b"b1")
    assert [each.withdraw() for each in (sent, unsent, alone)] == [False, True, True]
    waiting.set_result(Produced({A: 0}))
    append(producer, A, b"a3")
    _, batches = await brokers.take()
    assert {t: (values(e), sequence(e)) for t, e in batches.items()} == {A: ([b"a3"], 1)}
    append(producer, B, b"b2")
    assert values((await brokers.take())[1][B]) == [b"b2"]


async def test_a_request_has_a_limit_of_bytes_and_each_partition_gets_a_turn(
    producer: KafkaProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_producer, "_REQUEST_BYTES", 1000)
    brokers: Brokers = producer.client
    brokers.leaders[C] = 1
    for target, size in ((A, 5000), (B, 900), (C, 100)):
        for batch in append(producer, target, bytes(size)):
            batch.size = size
    requests = [sorted((await brokers.take())[1]) for _ in range(2)]
    assert requests == [[A], [B, C]]


async def test_sequence_numbers_begin_again_after_the_last_one(producer: KafkaProducer) -> None:
    brokers: Brokers = producer.client
    append(producer, A, b"a")
    await brokers.take()
    producer._partitions[A].sequence = 2**31 - 2
    found = []
    for records in ([b"1", b"2", b"3"], [b"4"]):
        append(producer, A, *records)
        found.append(sequence((await brokers.take())[1][A]))
    assert found == [2**31 - 2, 1]


async def test_closing_fails_unacknowledged_batches(
    producer: KafkaProducer, results: list[tuple[PendingBatch, Exception | None]]
) -> None:
    brokers: Brokers = producer.client
    append(producer, A, b"a1")
    await brokers.take(None)
    append(producer, A, b"a2")
    append(producer, C, b"c1")
    await producer.close()
    assert brokers.is_closed
    kinds: Sequence[Any] = [type(failure) for _, failure in results]
    assert kinds == [KafkaError] * 3
