"""Limits of the size and the cost of an envelope: sizes and counts are checked before the work is done."""

from dataclasses import replace
from typing import Any

import pytest

from ingest_edge.sentry.convert import MAX_RECORDS, MAX_VALUES, Converted, convert_envelope
from ingest_edge.sentry.envelope import read_envelope
from pipeline_contracts.errors import PayloadTooLarge
from tests.ingest_edge.sentry.test_convert import LIMITS, convert, converted_event, envelope

_FACE = "\U0001f600"
_LONG: dict[str, Any] = {
    "type": _FACE * 255,
    "value": "v",
    "stacktrace": {"frames": [{"function": _FACE * 255}]},
}


def _event(number: int, **members: Any) -> tuple[str, dict[str, Any]]:
    return "event", {"event_id": f"{number:032x}", **members}


def test_fingerprint_with_many_defaults_is_limited() -> None:
    default = f"{_FACE * 255}:{_FACE * 255}"
    for fingerprint, expected in [
        (["{{default}}" * 45] * 20, "\n".join([default[:500]] * 20)[:4096]),
        (["{{ default }}", "x"], f"{default[:500]}\nx"),
    ]:
        event = converted_event({"fingerprint": fingerprint, "exception": {"values": [_LONG]}})
        assert event["fingerprint"] == expected


def test_events_fit_into_their_limit() -> None:
    """With characters of four bytes the stack trace is cut further, and an event that does not fit even then is
    dropped."""
    frames = [{"function": _FACE * 1000, "filename": _FACE * 1000}] * 33
    exception = {"values": [{"type": "T", "value": "v", "stacktrace": {"frames": frames}}]}
    [record] = convert(("event", {"exception": exception})).records
    assert LIMITS.event_bytes // 2 < len(record.body) <= LIMITS.event_bytes
    control = "\x01"
    large = {"tags": {f"{number:03}{control * 197}": control * 255 for number in range(100)}}
    result = convert(("event", large), _event(7))
    assert result.dropped == {("event", "too_large"): 1} and result.count == 1
    with pytest.raises(PayloadTooLarge):
        convert(("event", large))


def test_records_of_an_envelope_are_limited() -> None:
    read = read_envelope(envelope(*(_event(number, message="x" * 1000) for number in range(1, 11))))
    wide = convert_envelope(read, LIMITS)
    assert wide.record_bytes == sum(len(record.body) for record in wide.records) > 10_000
    enough = replace(LIMITS, decompressed_bytes=wide.record_bytes // 2 + 1)
    assert convert_envelope(read, enough).records == wide.records
    with pytest.raises(PayloadTooLarge, match="records of more than"):
        convert_envelope(read, replace(LIMITS, decompressed_bytes=wide.record_bytes // 2 - 1))


def test_members_are_counted_before_they_are_converted() -> None:
    """Invalid members count too, because they cost as much."""
    half = {"items": [0] * (MAX_RECORDS // 2)}
    for name, items, members in [
        ("spans", [("span", {"items": [0] * (MAX_RECORDS + 1)})], 0),
        ("logs", [("log", {"items": [0] * (MAX_RECORDS + 1)})], 0),
        ("children", [("transaction", {"spans": [0] * MAX_RECORDS})], 0),
        ("children of an event", [("event", {"type": "transaction", "spans": [0] * MAX_RECORDS})], 0),
        ("older children", [("transaction", {"spans": {"values": [0] * MAX_RECORDS}})], 0),
        ("several items", [("span", half), ("log", half), ("event", {})], MAX_RECORDS),
    ]:
        converted = Converted()
        with pytest.raises(PayloadTooLarge, match=f"more than {MAX_RECORDS} events, spans"):
            convert_envelope(read_envelope(envelope(*items)), LIMITS, converted)
        assert (converted.members, converted.records) == (members, []), name
    # All members are read, and only one is kept.
    result = convert(("span", half), ("event", {}), ("check_in", {"monitor_slug": "a", "status": "ok"}))
    assert (result.members, result.count) == (MAX_RECORDS // 2 + 1, 1)


def test_values_are_counted_before_they_are_decoded() -> None:
    broken = "[" + "," * MAX_VALUES
    assert convert(("event", broken), _event(7)).dropped == {("event", "invalid"): 1}
    with pytest.raises(PayloadTooLarge, match=f"more than {MAX_VALUES} values"):
        convert(("event", broken), ("event", {"a": 1, "b": 2}))
    # Items that are not kept are never decoded.
    assert convert(("session", broken), ("event", broken), _event(7)).count == 1
