"""Behaviour of every event log. A new engine is one more parameter of the fixture."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.records import LogRecord, Position
from storage_backends.event_log.interface import EventLog
from tests.support.log_under_test import MB, LogUnderTest, kafka_under_test, sqlite_under_test, wait_claimed


@pytest.fixture(params=["sqlite", "kafka"])
async def logged(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LogUnderTest]:
    if request.param == "sqlite":
        async with sqlite_under_test(tmp_path) as under_test:
            yield under_test
    else:
        async with kafka_under_test(request.getfixturevalue("kafka_bootstrap")) as under_test:
            yield under_test


async def read_all(logged: LogUnderTest, count: int, start: int = 0) -> list[LogRecord]:
    """Return the next `count` records, from as many reads as they need."""
    records: list[LogRecord] = []
    async with asyncio.timeout(60):
        while len(records) < count:
            at = records[-1].offset + 1 if records else start
            records += await logged.consumer.read(0, at, start + count, 100 * MB, 1.0)
    return records


async def append(log: EventLog, topic: str, value: bytes) -> None:
    await log.append(topic, b"k", b"", value)


async def test_a_record_is_read_as_it_was_appended(logged: LogUnderTest) -> None:
    await logged.log.append(logged.topic, b"key", b"\0meta\xff", b"\xffvalue\0")
    await wait_claimed(logged.consumer)
    (record,) = await read_all(logged, 1)
    assert (record.offset, record.key, record.meta, record.value) == (
        0,
        b"key",
        b"\0meta\xff",
        b"\xffvalue\0",
    )


@pytest.mark.parametrize("size", [0, 1, 63, 64, 8191, 8192, 300_000, 2 * MB, 20 * MB])
async def test_values_of_all_sizes_are_read_back(logged: LogUnderTest, size: int) -> None:
    value = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    await append(logged.log, logged.topic, value)
    await wait_claimed(logged.consumer)
    (record,) = await read_all(logged, 1)
    assert record.value == value


async def test_concurrent_appends_keep_their_order(logged: LogUnderTest) -> None:
    await asyncio.gather(*[append(logged.log, logged.topic, b"%d" % n) for n in range(2000)])
    await wait_claimed(logged.consumer)
    assert [r.value for r in await read_all(logged, 2000)] == [b"%d" % n for n in range(2000)]


async def test_appends_in_every_iteration_of_the_event_loop_are_stored(logged: LogUnderTest) -> None:
    # Each append follows immediately, in every state of the log.
    waiting = []
    for n in range(3000):
        waiting.append(logged.log.append(logged.topic, b"k", b"", b"%d" % n))
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    await wait_claimed(logged.consumer)
    assert [r.value for r in await read_all(logged, 3000)] == [b"%d" % n for n in range(3000)]


async def test_records_of_several_batches_keep_their_order(logged: LogUnderTest) -> None:
    values = [b"%03d" % n * 40_000 for n in range(60)]
    await asyncio.gather(*[append(logged.log, logged.topic, value) for value in values])
    await wait_claimed(logged.consumer)
    assert [r.value for r in await read_all(logged, 60)] == values


async def test_topics_do_not_mix(logged: LogUnderTest) -> None:
    await asyncio.gather(append(logged.log, logged.topic, b"a"), append(logged.log, logged.other, b"b"))
    await wait_claimed(logged.consumer)
    (record,) = await read_all(logged, 1)
    assert record.value == b"a"
    assert await logged.consumer.backlog() == 1


async def test_a_read_stops_below_its_end(logged: LogUnderTest) -> None:
    for n in range(6):
        await append(logged.log, logged.topic, b"%d" % n)
    await wait_claimed(logged.consumer)
    assert [r.value for r in await read_all(logged, 3, 2)] == [b"2", b"3", b"4"]
    # The same records again: a consumer may go back.
    assert [r.offset for r in await read_all(logged, 6)] == [0, 1, 2, 3, 4, 5]


async def test_reads_are_bounded_in_bytes_but_return_at_least_one_record(logged: LogUnderTest) -> None:
    for _ in range(4):
        await append(logged.log, logged.topic, bytes(1000))
    await wait_claimed(logged.consumer)
    await read_all(logged, 4)
    assert len(await logged.consumer.read(0, 0, None, 1, 10.0)) == 1
    assert len(await logged.consumer.read(0, 0, None, 1001, 10.0)) == 2


async def test_a_waiting_read_wakes_for_an_append(logged: LogUnderTest) -> None:
    await wait_claimed(logged.consumer)
    assert await logged.consumer.read(0, 0, None, MB, 0.1) == []
    reading = asyncio.create_task(logged.consumer.read(0, 0, None, MB, 60))
    await asyncio.sleep(0.05)
    await append(logged.log, logged.topic, b"x")
    assert [r.value for r in await asyncio.wait_for(reading, 60)] == [b"x"]


async def test_a_cancelled_append_does_not_affect_others(logged: LogUnderTest) -> None:
    tasks = [asyncio.create_task(append(logged.log, logged.topic, b"%d" % n)) for n in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(d) for d in done] == [type(None), asyncio.CancelledError, type(None)]
    await wait_claimed(logged.consumer)
    assert [r.value for r in await read_all(logged, 3)] == [b"0", b"1", b"2"]


async def test_records_positions_and_the_identity_survive_a_reopening(logged: LogUnderTest) -> None:
    for n in range(10):
        await append(logged.log, logged.topic, b"%d" % n)
    assert await wait_claimed(logged.consumer) == {0: Position(0)}
    await logged.consumer.commit(0, Position(3, 7))
    identity = logged.consumer.log_id
    await logged.reopen()
    assert await wait_claimed(logged.consumer) == {0: Position(3, 7)}
    assert logged.consumer.log_id == identity
    assert [r.value for r in await read_all(logged, 4, 3)] == [b"3", b"4", b"5", b"6"]
    await append(logged.log, logged.topic, b"10")
    assert [r.value for r in await read_all(logged, 1, 10)] == [b"10"]
    await logged.consumer.commit(0, Position(7))
    await logged.reopen()
    assert await wait_claimed(logged.consumer) == {0: Position(7, None)}


async def test_a_claim_returns_the_last_committed_position(logged: LogUnderTest) -> None:
    await append(logged.log, logged.topic, b"x")
    await wait_claimed(logged.consumer)
    for position in (Position(0, 1), Position(1)):
        await logged.consumer.commit(0, position)
        assert await logged.consumer.claim() == {0: position}


async def test_planned_records_are_kept(logged: LogUnderTest) -> None:
    await append(logged.log, logged.topic, b"x")
    await wait_claimed(logged.consumer)
    await logged.consumer.commit(0, Position(0, 1))
    (record,) = await read_all(logged, 1)
    assert record.value == b"x"


async def test_the_backlog_counts_records_that_are_not_committed(logged: LogUnderTest) -> None:
    for _ in range(5):
        await append(logged.log, logged.topic, b"x")
    await wait_claimed(logged.consumer)
    await logged.consumer.commit(0, Position(2))
    assert await logged.consumer.backlog() == 3


async def test_the_end_is_the_offset_after_the_last_record(logged: LogUnderTest) -> None:
    """The end does not depend on the consumer's position or reads."""
    await wait_claimed(logged.consumer)
    ends = [await logged.consumer.end(0)]
    for _ in range(3):
        await append(logged.log, logged.topic, b"x")
        ends.append(await logged.consumer.end(0))
    await read_all(logged, 3)
    await logged.consumer.commit(0, Position(3))
    assert [*ends, await logged.consumer.end(0)] == [0, 1, 2, 3, 3]


async def test_a_closed_log_refuses(logged: LogUnderTest) -> None:
    await logged.log.close()
    assert logged.log.stalled_reason() is not None
    with pytest.raises(StorageUnavailable):
        await append(logged.log, logged.topic, b"x")
