"""Access log lines become events, and the format of a file is detected."""

import json
from typing import Any

import pytest

from ingest_edge.decoders.telemetry import decode_batch
from ingest_edge.limits import Limits
from operator_cli.ingest.sending.line_formats import BadLine, detect_format, encode_access_log_line
from pipeline_contracts.settings import Settings

COMMON = b'203.0.113.9 - frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif?size=2 HTTP/1.0" 200 2326'
COMBINED = COMMON + b' "https://shop.example/start" "Mozilla/5.0 (X11)"'


def event_of(line: bytes) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(encode_access_log_line(line))
    return event


def test_a_combined_line_becomes_a_request_without_address_and_user() -> None:
    assert event_of(COMBINED) == {
        "type": "request",
        "name": "GET /a.gif",
        "severity": "info",
        "timestamp": "2000-10-10T13:55:36-07:00",
        "route": "/a.gif",
        "url": "/a.gif?size=2",
        "status_code": 200,
        "attributes": {
            "method": "GET",
            "protocol": "HTTP/1.0",
            "bytes": 2326,
            "referrer": "https://shop.example/start",
            "user_agent": "Mozilla/5.0 (X11)",
        },
    }


def test_a_common_line_has_no_referrer() -> None:
    assert event_of(COMMON)["attributes"] == {"method": "GET", "protocol": "HTTP/1.0", "bytes": 2326}


@pytest.mark.parametrize(
    ("more", "milliseconds"),
    [
        (b" 0.123", 123.0),
        (b" 12.5", 12500.0),
        (b" 4500", 4.5),
        (b' "198.51.100.7" 0.004', 4.0),
        (b' "198.51.100.7"', None),
        (b" -", None),
        (b"", None),
    ],
)
def test_a_last_number_is_the_duration_of_the_request(more: bytes, milliseconds: float | None) -> None:
    event = event_of(COMBINED + more)
    assert event.get("duration_ms") == milliseconds
    assert "198.51.100.7" not in json.dumps(event)


@pytest.mark.parametrize("request_text", [b"", b"-", rb"\x16\x03\x01\x02", b"quit"])
def test_a_request_that_is_not_http_is_kept_without_a_path(request_text: bytes) -> None:
    event = event_of(
        COMBINED.replace(b"GET /a.gif?size=2 HTTP/1.0", request_text).replace(b" 200 ", b" 400 ")
    )
    assert (event["name"], event["status_code"], event["severity"]) == ("-", 400, "warning")
    assert "route" not in event


def test_fields_may_contain_quotes_and_brackets() -> None:
    line = rb'vhost:80 ::1 - a[b [01/Feb/2024:00:00:00 +0530] "GET /\"x\" HTTP/2.0" 503 - "-" "a \"b\" [c]"'
    event = event_of(line)
    assert event["timestamp"] == "2024-02-01T00:00:00+05:30"
    assert event["severity"] == "error"
    assert event["attributes"] == {"method": "GET", "protocol": "HTTP/2.0", "user_agent": r"a \"b\" [c]"}


@pytest.mark.parametrize(
    "line",
    [
        b"hello",
        COMBINED[:40],
        COMBINED.replace(b"10/Oct", b"31/Feb"),
        COMBINED.replace(b"Oct", b"Okt"),
        COMBINED.replace(b"13:55", b"25:55"),
        COMBINED.replace(b"-0700", b"-9900"),
        COMBINED.replace(b" 200 ", b" 20 "),
    ],
)
def test_lines_in_another_format_are_refused(line: bytes) -> None:
    with pytest.raises(BadLine):
        encode_access_log_line(line)


def test_the_edge_accepts_every_converted_event() -> None:
    lines = [COMMON, COMBINED + b" 0.1", COMBINED.replace(b"X11", b"\xff\xfe\x00\x1b")]
    body = b'{"batch_id":"b","events":[%b]}' % b",".join(map(encode_access_log_line, lines))
    assert len(decode_batch(body, Limits.from_settings(Settings()))[0].events) == 3


@pytest.mark.parametrize(
    ("beginning", "name"),
    [
        (b'\xef\xbb\xbf\n  {"type"', "ndjson"),
        (COMMON + b"\n{}", "combined"),
        (COMBINED, "combined"),
        (b"time,level\n", None),
        (b"", None),
    ],
)
def test_the_format_is_detected_from_the_first_line(beginning: bytes, name: str | None) -> None:
    line_format = detect_format(beginning)
    assert (line_format.name if line_format else None) == name
