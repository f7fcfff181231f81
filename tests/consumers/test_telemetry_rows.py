"""Rows of the telemetry transform."""

import json
from typing import Any

import msgspec
import pytest

from consumers.transforms.telemetry_rows import telemetry_rows
from tests.support.telemetry_records import meta

EVENT: dict[str, Any] = {
    "type": "query",
    "id": "i",
    "severity": "debug",
    "name": "n",
    "title": "t",
    "timestamp": "2026-11-18T11:00:00.5Z",
    "trace_id": "a",
    "span_id": "b",
    "parent_span_id": "c",
    "route": "/x/{id}",
    "url": "https://x",
    "service": "s",
    "status_code": -1,
    "duration_ms": 0.5,
    "fingerprint": "f",
    "affected_users": 2**63 - 1,
    "details": "line\nline",
    "attributes": {"a": {"b": [1, None]}},
    "payload": {},
}


def transform(*events: dict[str, Any], body: bytes | None = None) -> tuple[list[dict[str, Any]], int]:
    body = json.dumps({"batch_id": "b-1", "events": events}).encode() if body is None else body
    result = telemetry_rows(body, meta("env_1", "b-1", len(events)), "rcp_1", "topic/log/0", 42)
    lines = result.lines.splitlines()
    assert (result.lines.endswith(b"\n"), len(lines)) == (True, result.rows)
    return [json.loads(line) for line in lines], result.clamped


def test_every_field_of_the_api_becomes_a_column() -> None:
    (row,), clamped = transform(EVENT)
    assert clamped == 0
    assert row == {
        **EVENT,
        "timestamp": "2026-11-18T11:00:00.500000Z",
        "account_id": "acc_1",
        "project_id": "prj_1",
        "environment_id": "env_1",
        "receipt_id": "rcp_1",
        "batch_id": "b-1",
        "position": 0,
        "received_at": "2026-11-18T11:06:40.123Z",
        "log": "topic/log/0",
        "log_offset": 42,
    }


def test_positions_count_within_the_batch() -> None:
    rows, _ = transform({"type": "log"}, {"type": "log"}, {"type": "log"})
    assert [row["position"] for row in rows] == [0, 1, 2]


@pytest.mark.parametrize(
    ("timestamp", "stored", "clamped"),
    [
        (None, "2026-11-18T11:06:40.123000Z", 0),
        ("2026-11-19T11:06:40.122Z", "2026-11-19T11:06:40.122000Z", 0),
        ("2026-11-19T11:06:40.124Z", "2026-11-18T11:06:40.123000Z", 1),
        ("2026-11-20T01:00:00+14:00", "2026-11-20T01:00:00+14:00", 0),
        ("9999-12-31T23:59:59Z", "2026-11-18T11:06:40.123000Z", 1),
        ("1899-12-31T23:59:59Z", "2026-11-18T11:06:40.123000Z", 1),
        ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", 0),
    ],
)
def test_a_time_too_far_ahead_or_too_old_becomes_the_time_of_receipt(
    timestamp: str | None, stored: str, clamped: int
) -> None:
    (row,), count = transform({"type": "log", "timestamp": timestamp})
    assert (row["timestamp"], count) == (stored, clamped)


def test_members_named_like_our_columns_are_overwritten() -> None:
    hostile = {
        "account_id": "acc_2",
        "environment_id": {"x": 1},
        "position": "9",
        "log_offset": [],
        "log": None,
    }
    (row,), _ = transform({"type": "log", **hostile})
    assert (row["account_id"], row["environment_id"], row["position"]) == ("acc_1", "env_1", 0)
    assert (row["log"], row["log_offset"]) == ("topic/log/0", 42)


def test_free_form_members_with_line_breaks_stay_on_one_line() -> None:
    body = (
        b'{"batch_id": "b-1", "events": [{"type": "log", "attributes": {\n"a":\r\n1\n}}, {"type":\n"job"}]}'
    )
    result = telemetry_rows(body, meta("env_1", "b-1", 2), "rcp_1", "l", 0)
    rows = [line for line in result.lines.split(b"\n{") if line]
    assert len(rows) == 2
    assert json.loads(rows[0])["attributes"] == {"a": 1}


def test_the_same_record_gives_the_same_bytes() -> None:
    body = json.dumps({"batch_id": "b-1", "events": [EVENT] * 3}).encode()
    first, second = (telemetry_rows(body, meta("e", "b-1", 3), "r", "l", 1) for _ in range(2))
    assert first == second


def test_a_body_that_no_edge_accepts_is_an_error() -> None:
    for body in (b"", b"{", b'{"events": [{"type": "nonsense"}]}', b'{"batch_id": "x"}'):
        with pytest.raises(msgspec.DecodeError):
            transform(body=body)
