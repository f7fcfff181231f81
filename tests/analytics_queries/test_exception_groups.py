"""Exceptions are grouped into issues by their message without variable parts, and by the innermost frame."""

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from analytics_queries.store_clock import store_time_ms
from analytics_queries.telemetry.exception_groups import newest_samples, seen_groups
from analytics_queries.telemetry.exception_occurrences import newest_occurrences, occurrence_key
from analytics_queries.telemetry.time_range import TimeRange, to_nanoseconds
from storage_backends.column_store.chdb_embedded import ChdbColumnStore

NOW = datetime.now(UTC)


def at(seconds: float = 0) -> str:
    return (NOW - timedelta(minutes=10) + timedelta(seconds=seconds)).isoformat()


def event(environment: str, offset: int, **members: Any) -> tuple[str, dict[str, Any]]:
    row = {
        "environment_id": environment,
        "type": "exception",
        "timestamp": at(offset),
        "received_at": at(offset),
        "service": "shop",
        "log": environment,
        "log_offset": offset,
        **members,
    }
    return "pharos.telemetry_events", row


def span_event(
    environment: str, offset: int, span: str, trace: str = "ab" * 16, **attributes: str
) -> tuple[str, dict[str, Any]]:
    row = {
        "EnvironmentId": environment,
        "Timestamp": at(offset),
        "ReceivedAt": at(offset),
        "TraceId": trace,
        "SpanId": span,
        "ServiceName": "api",
        "SpanAttributes": {"user.id": f"user {offset % 3}"},
        "Events.Timestamp": [at(offset)],
        "Events.Name": ["exception"],
        "Events.Attributes": [attributes],
        "log": environment,
        "log_offset": offset,
    }
    return "pharos.otel_traces", row


def log_record(
    environment: str, offset: int, span: str, trace: str = "ab" * 16, **attributes: str
) -> tuple[str, dict[str, Any]]:
    row = {
        "EnvironmentId": environment,
        "Timestamp": at(offset),
        "ReceivedAt": at(offset),
        "TraceId": trace,
        "SpanId": span,
        "ServiceName": "api",
        "Body": "it broke",
        "LogAttributes": attributes,
        "log": environment,
        "log_offset": offset,
    }
    return "pharos.otel_logs", row


async def insert_rows(store: ChdbColumnStore, *rows: tuple[str, dict[str, Any]]) -> None:
    tables: dict[str, list[dict[str, Any]]] = {}
    for table, row in rows:
        tables.setdefault(table, []).append(row)
    for table, table_rows in tables.items():
        lines = "".join(json.dumps(row) + "\n" for row in table_rows).encode()
        await store.insert(table, lines, len(table_rows), uuid.uuid4().hex)


async def groups(
    store: ChdbColumnStore, environment: str, *, only: list[int] | None = None
) -> list[dict[str, Any]]:
    """Return the groups of the last day, each with its last exception."""
    within = TimeRange(to_nanoseconds(NOW - timedelta(days=1)), to_nanoseconds(NOW + timedelta(hours=1)))
    snapshot_ms = await store_time_ms(store)
    rows = await seen_groups(store, environment, within, snapshot_ms=snapshot_ms, only=only, limit=1000)
    samples = await newest_samples(store, environment, {row["group_id"]: row["last_seen_ns"] for row in rows})
    return [{**samples[row["group_id"]], **row} for row in rows]


# Pairs of messages of the same issue.
SAME = [
    ("user 17 not found", "user 18 not found"),
    ("took 1.5 s", "took 20.25 s"),
    ("at 12:30:05 it ended", "at 9:05:01 it ended"),
    ("no row 550e8400-e29b-41d4-a716-446655440000", "no row 6BA7B810-9DAD-11D1-80B4-00C04FD430C8"),
    ("mail to ada@example.com failed", "mail to bob.b+x@mail.example.org failed"),
    ("object at 0x7f3a2b", "object at 0xDEADBEEF"),
    ("commit 9fceb02d0ae598e9 is gone", "commit 00ff12aa9bc3d471 is gone"),
    ('no key "colour"', 'no key "size"'),
    ("no key 'colour'", "no key 'size of it'"),
    ("table `a` is locked", "table `b` is locked"),
    ("GET https://a.example/x?y=1 timed out", "GET http://b.example/z timed out"),
    ("order 1,000 of 2,000", "order 7 of 9"),
    ("port 8080 in use", "port 9090 in use"),
    ("line 5\nof two", "line 6\nof two"),
]
# Pairs of messages of different issues.
DIFFERENT = [
    ("user not found", "order not found"),
    ("connection refused", "connection reset"),
    ("timeout", "Timeout"),
    ("a 1", "b 1"),
]


@pytest.mark.parametrize(("first", "second"), SAME)
async def test_messages_that_differ_in_variable_parts_are_one_issue(
    column_store: ChdbColumnStore, first: str, second: str
) -> None:
    environment = uuid.uuid4().hex
    await insert_rows(column_store, event(environment, 1, title=first), event(environment, 2, title=second))
    (group,) = await groups(column_store, environment)
    assert (group["count"], group["message"]) == (2, second)


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
async def test_messages_that_differ_otherwise_are_two_issues(
    column_store: ChdbColumnStore, first: str, second: str
) -> None:
    environment = uuid.uuid4().hex
    await insert_rows(column_store, event(environment, 1, title=first), event(environment, 2, title=second))
    assert len(await groups(column_store, environment)) == 2


PYTHON = """Traceback (most recent call last):
  File "/app/main.py", line {0}, in main
    work()
  File "/app/shop/cart.py", line {1}, in add
    raise KeyError(name)
KeyError: 'colour'
"""
NODE = """TypeError: Cannot read properties of undefined (reading 'id')
    at add (/app/shop/cart.js:{0}:{1})
    at main (/app/main.js:5:7)
"""
JAVA = """java.lang.IllegalStateException: no cart
\tat com.shop.Cart.add(Cart.java:{0})
\tat com.shop.Main.main(Main.java:{1})
Caused by: java.io.IOException: gone
"""
GO = """goroutine 17 [running]:
main.add(0x1)
\t/app/cart.go:{0} +0x1d
main.main()
\t/app/main.go:{1} +0x2a
"""
RUBY = """/app/cart.rb:{0}:in `add': no cart (RuntimeError)
\tfrom /app/main.rb:{1}:in `main'
"""
STACKS = [
    (PYTHON, "/app/shop/cart.py in add"),
    (NODE, "add (/app/shop/cart.js)"),
    (JAVA, "com.shop.Cart.add(Cart.java)"),
    (GO, "/app/cart.go"),
    (RUBY, "/app/cart.rb:in `add': no cart (RuntimeError)"),
    ("no stack at all {0} {1}", ""),
]


@pytest.mark.parametrize(("stack", "frame"), STACKS, ids=lambda value: value[:20])
async def test_exceptions_are_grouped_by_the_innermost_frame_without_its_line(
    column_store: ChdbColumnStore, stack: str, frame: str
) -> None:
    """An edit above the frame changes its line, not the issue; the same message from elsewhere is another issue."""
    environment = uuid.uuid4().hex
    elsewhere = stack.format(1, 2).replace("cart", "stock").replace("Cart", "Stock")
    await insert_rows(
        column_store,
        event(environment, 1, title="it broke", details=stack.format(10, 20)),
        event(environment, 2, title="it broke", details=stack.format(11, 22)),
        event(environment, 3, title="it broke", details=elsewhere),
    )
    found = await groups(column_store, environment)
    if not frame:
        assert [group["count"] for group in found] == [3]
        return
    assert [(group["count"], group["frame"]) for group in found if "tock" not in group["frame"]] == [
        (2, frame)
    ]
    assert len(found) == 2


async def test_an_exception_that_passes_through_several_spans_counts_once(
    column_store: ChdbColumnStore,
) -> None:
    """Node's instrumentation records it in the spans of the handler, of the router and of the request. The list of the
    group's exceptions has as many entries as are counted, on pages of any size."""
    environment = uuid.uuid4().hex
    attributes = {
        "exception.type": "Error",
        "exception.message": "kaput 1",
        "exception.stacktrace": NODE.format(1, 2),
    }
    other = {**attributes, "exception.message": "kaput 2"}
    await insert_rows(
        column_store,
        *[span_event(environment, n, f"{n:016x}", "01" * 16, **attributes) for n in (1, 2, 3)],
        log_record(environment, 4, f"{1:016x}", "01" * 16, **attributes),
        # Another message, and another trace.
        span_event(environment, 2, f"{4:016x}", "01" * 16, **other),
        span_event(environment, 3, f"{5:016x}", "02" * 16, **attributes),
        # An SDK that sends an event for each exception counts them itself.
        *[
            event(
                environment, n, name="Error", title="kaput 1", details=NODE.format(1, 2), trace_id="01" * 16
            )
            for n in (5, 6)
        ],
    )
    (group,) = await groups(column_store, environment)
    assert group["count"] == 5
    everything = TimeRange(to_nanoseconds(NOW - timedelta(days=1)), to_nanoseconds(NOW + timedelta(hours=1)))
    # The windows that are read end between the rows of one exception.
    boundaries = [
        TimeRange(everything.start, to_nanoseconds(datetime.fromisoformat(at(seconds))))
        for seconds in (2.5, 3.5, 20)
    ]
    counts = []
    for within in [*boundaries, everything]:
        for size in (1, 2, 10):
            found: list[dict[str, Any]] = []
            while page := await newest_occurrences(
                column_store,
                environment,
                group["group_id"],
                within,
                occurrence_key(found[-1]) if found else None,
                size,
            ):
                found += page
            times = [row["time_ns"] for row in found]
            assert times == sorted(times, reverse=True)
            counts.append(len(found))
    assert counts == [2, 2, 2, 3, 3, 3, 5, 5, 5, 5, 5, 5]


async def test_a_fingerprint_of_the_sender_decides_the_group(column_store: ChdbColumnStore) -> None:
    environment = uuid.uuid4().hex
    await insert_rows(
        column_store,
        event(environment, 1, title="a", fingerprint="f"),
        event(environment, 2, title="b", fingerprint="f"),
        event(environment, 3, title="b"),
    )
    assert [group["count"] for group in await groups(column_store, environment)] == [1, 2]


async def test_an_exception_in_a_span_and_a_log_record_counts_once(column_store: ChdbColumnStore) -> None:
    """An exception that only one of them reports counts too."""
    environment = uuid.uuid4().hex
    attributes = {
        "exception.type": "KeyError",
        "exception.message": "no 'x'",
        "exception.stacktrace": PYTHON.format(1, 2),
    }
    await insert_rows(
        column_store,
        *[span_event(environment, n, f"{n:016x}", f"{n:032x}", **attributes) for n in range(1, 5)],
        *[log_record(environment, n, f"{n:016x}", f"{n:032x}", **attributes) for n in range(3, 7)],
        log_record(environment, 0, "", "", **attributes),
    )
    (group,) = await groups(column_store, environment)
    assert (group["count"], group["kind"], group["services"]) == (7, "KeyError", ["api"])
    assert group["affected_users"] == 3
    assert group["trace_id"] == f"{6:032x}"
    (same,) = await groups(column_store, environment, only=[group["group_id"]])
    assert same == group


async def test_the_largest_number_of_affected_users_is_reported(column_store: ChdbColumnStore) -> None:
    environment = uuid.uuid4().hex
    await insert_rows(
        column_store,
        event(environment, 1, title="a", affected_users=12),
        event(environment, 2, title="a", affected_users=7, attributes='{"user.id": "1"}'),
    )
    (group,) = await groups(column_store, environment)
    assert group["affected_users"] == 12


@pytest.mark.parametrize("count", [20_000, pytest.param(100_000, marks=pytest.mark.full)])
async def test_many_exceptions_of_fifty_kinds_are_fifty_groups(
    column_store: ChdbColumnStore, count: int
) -> None:
    """The store does the grouping and returns only groups."""
    environment = uuid.uuid4().hex
    rows = [
        event(environment, n % 500, title=f"kind {chr(65 + n % 50)}{chr(97 + n % 25)} of {n}", position=n)
        for n in range(count)
    ]
    await insert_rows(column_store, *rows)
    found = await groups(column_store, environment)
    assert [group["count"] for group in found] == [count // 50] * 50


async def test_environments_have_groups_of_their_own(column_store: ChdbColumnStore) -> None:
    environment, other = uuid.uuid4().hex, uuid.uuid4().hex
    await insert_rows(column_store, event(environment, 1, title="a"), event(other, 1, title="a"))
    (group,) = await groups(column_store, environment)
    (elsewhere,) = await groups(column_store, other)
    assert group["group_id"] != elsewhere["group_id"]
