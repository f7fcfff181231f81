"""The edge refuses bodies of many small parts, which take no tokens, before they block it for seconds. Each body has a
few kilobytes in gzip.
"""

import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_service

from ingest_edge.limits import Limits
from ingest_edge.otlp import protobuf
from pipeline_contracts.errors import PayloadTooLarge
from pipeline_contracts.settings import Settings
from tests.support.otlp_pipeline import validate_json_body

_LIMITS = Limits.from_settings(Settings())
_MANY = 50_001


def _many(part: bytes, count: int = _MANY) -> bytes:
    return b",".join([part] * count)


@pytest.mark.parametrize(
    ("signal", "body", "of"),
    [
        (
            "traces",
            b'{"resourceSpans":[{"scopeSpans":[{"spans":[%b]}]}]}' % _many(b"{}"),
            "records",
        ),
        (
            "metrics",
            b'{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"sum":{"dataPoints":[%b]}}]}]}]}'
            % _many(b"{}"),
            "records",
        ),
        (
            "logs",
            b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[%b]}]}]}' % _many(b'{"body":1}'),
            "records",
        ),
        (
            "logs",
            b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"x"}]}]}],"x":[%b]}'
            % _many(b"[]", 2_000_001),
            "values",
        ),
    ],
    ids=["spans", "points", "unreadable", "unread"],
)
def test_too_many_parts_in_json_are_refused(signal: str, body: bytes, of: str) -> None:
    with pytest.raises(PayloadTooLarge, match=f"more than .* {of}"):
        validate_json_body(signal, body, _LIMITS)


def _spans() -> bytes:
    request = trace_service.ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for _ in range(_MANY):
        spans.add()
    data: bytes = request.SerializeToString()
    return data


@pytest.mark.parametrize(
    ("path", "body", "of"),
    [
        ("v1/traces", _spans(), "records"),
        # An empty field of two bytes: an empty resource.
        ("v1/logs", b"\x0a\x00" * 100_001, "resources and scopes"),
        # A resource of empty scopes.
        ("v1/metrics", b"\x0a\xc2\x9a\x0c" + b"\x12\x00" * 100_001, "resources and scopes"),
    ],
    ids=["spans", "resources", "scopes"],
)
def test_too_many_parts_in_protobuf_are_refused(path: str, body: bytes, of: str) -> None:
    with pytest.raises(PayloadTooLarge, match=f"more than .* {of}"):
        protobuf.validate(path, body, _LIMITS)


def test_maximum_of_parts_is_accepted() -> None:
    body = b'{"resourceSpans":[{"scopeSpans":[{"spans":[%b]}]}]}' % _many(b"{}", _MANY - 1)
    verdict, _ = validate_json_body("traces", body, _LIMITS)
    assert verdict.rejections == _MANY - 1
    resources = b"\x0a\x00" * 100_000
    assert protobuf.validate("v1/logs", resources, _LIMITS).rejections == 0


def test_a_repaired_body_that_is_longer_is_refused() -> None:
    """The log accepts no records above the limit of bodies."""
    records = b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":1e30}]}]}],"x":[%b]}'
    body = records % _many(b"1e15", 1_200_000)
    assert len(body) < _LIMITS.decompressed_bytes / 3
    with pytest.raises(PayloadTooLarge, match="The repaired body is over"):
        validate_json_body("logs", body, _LIMITS)
    validate_json_body("logs", records % b"1e15", _LIMITS)
