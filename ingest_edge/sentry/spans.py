"""Convert transactions and spans to OTLP spans."""

from collections.abc import Mapping
from typing import Any

from ingest_edge.sentry.events import source_of_event, user_of_event
from ingest_edge.sentry.typed_attributes import read_typed, split_source
from ingest_edge.sentry.values import (
    Source,
    as_dict,
    as_hex,
    as_list,
    as_nanoseconds,
    as_tags,
    as_text,
    otlp_attributes,
)

_MAX_NAME = 200
_INTERNAL, _SERVER, _CLIENT, _PRODUCER, _CONSUMER = 1, 2, 3, 4, 5
_OK, _ERROR = 1, 2
_KINDS = {"server": _SERVER, "client": _CLIENT, "producer": _PRODUCER, "consumer": _CONSUMER}
# Sentry's statuses for faults of the server; the others are faults of the caller (semantic conventions of HTTP).
_SERVER_FAULTS = frozenset(
    {
        "internal_error",
        "unknown_error",
        "unknown",
        "error",
        "deadline_exceeded",
        "unavailable",
        "unimplemented",
        "data_loss",
        "aborted",
    }
)
_NO_FAULTS = frozenset({"", "ok", "unset", "cancelled"})

Spans = list[tuple[Source, dict[str, Any]]]
"""OTLP spans, each with its source."""


def convert_transaction(event: dict[str, Any]) -> tuple[Spans, int]:
    """Return the root span of a transaction and its children, and the number of invalid spans."""
    source = source_of_event(event)
    contexts = as_dict(event.get("contexts"))
    trace = as_dict(contexts.get("trace"))
    request = as_dict(event.get("request"))
    attributes: dict[str, Any] = dict(as_tags(event.get("tags")))
    attributes |= {
        f"sentry.measurements.{name}": as_dict(each).get("value")
        for name, each in as_dict(event.get("measurements")).items()
    }
    attributes |= {
        "url.full": as_text(request.get("url"), 2000) or None,
        "http.request.method": as_text(request.get("method")) or None,
        "http.response.status_code": as_dict(contexts.get("response")).get("status_code"),
        "user.id": user_of_event(event) or None,
        "sentry.transaction.source": as_dict(event.get("transaction_info")).get("source"),
    }
    root = {**trace, "start_timestamp": event.get("start_timestamp"), "timestamp": event.get("timestamp")}
    name = as_text(event.get("transaction"), _MAX_NAME) or "<unlabeled transaction>"
    spans = [_span(root, name, attributes)]
    for child in as_list(event.get("spans")):
        spans.append(_child(child, trace.get("trace_id")))
    valid = [(source, span) for span in spans if span is not None]
    return valid, len(spans) - len(valid)


def convert_span(payload: dict[str, Any], sdk: Mapping[str, Any]) -> tuple[Spans, int]:
    """Return the spans of an item `span`: one span, or a container of several. `sdk` is from the envelope's header."""
    if isinstance(payload.get("items"), list):
        spans = [_streamed(as_dict(item), sdk) for item in payload["items"]]
    else:
        spans = [_standalone(payload, sdk)]
    valid = [span for span in spans if span is not None]
    return valid, len(spans) - len(valid)


def _standalone(span: dict[str, Any], sdk: Mapping[str, Any]) -> tuple[Source, dict[str, Any]] | None:
    data = as_dict(span.get("data"))
    source, rest = split_source(data, sdk, as_text(span.get("platform")))
    converted = _child({**span, "data": rest}, None)
    return None if converted is None else (source, converted)


def _streamed(span: dict[str, Any], sdk: Mapping[str, Any]) -> tuple[Source, dict[str, Any]] | None:
    """Convert a span of the second version, which has typed attributes."""
    source, attributes = split_source(read_typed(span.get("attributes")), sdk, "")
    # A list of fifty names, on each root span.
    attributes.pop("sentry.sdk.integrations", None)
    op = as_text(attributes.get("sentry.op"))
    converted = _make_span(
        span,
        end=span.get("end_timestamp"),
        name=as_text(span.get("name"), _MAX_NAME) or op or "<unlabeled span>",
        kind=_KINDS.get(as_text(attributes.get("sentry.kind"))) or _kind_of(op),
        status=as_text(span.get("status")),
        attributes=attributes | _database_attributes(op, span.get("name"), attributes),
    )
    if converted is None:
        return None
    reason = as_text(attributes.get("sentry.status.message"))
    if reason and "message" in converted.get("status", {}):
        converted["status"]["message"] = reason
    links = [link for each in as_list(span.get("links")) if (link := _link(as_dict(each))) is not None]
    if links:
        converted["links"] = links
    return source, converted


def _link(link: dict[str, Any]) -> dict[str, Any] | None:
    trace_id, span_id = as_hex(link.get("trace_id"), 32), as_hex(link.get("span_id"), 16)
    if not trace_id or not span_id:
        return None
    return {
        "traceId": trace_id,
        "spanId": span_id,
        "attributes": otlp_attributes(read_typed(link.get("attributes"))),
    }


def _child(child: Any, trace_id: Any) -> dict[str, Any] | None:
    span = as_dict(child)
    op = as_text(span.get("op"))
    name = as_text(span.get("description"), 4000)
    if op.startswith("http"):
        # Remove the query, which differs from call to call.
        name = name.partition("?")[0]
    if trace_id is not None and not span.get("trace_id"):
        span = {**span, "trace_id": trace_id}
    return _span(span, name[:_MAX_NAME] or op or "<unlabeled span>", dict(as_tags(span.get("tags"))))


def _span(span: Mapping[str, Any], name: str, attributes: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return an OTLP span of the first version of Sentry's spans; None if it is invalid."""
    op = as_text(span.get("op"))
    merged = {
        **attributes,
        **as_dict(span.get("data")),
        "sentry.op": op or None,
        "sentry.origin": as_text(span.get("origin")) or None,
    }
    return _make_span(
        span,
        end=span.get("timestamp"),
        name=name,
        kind=_kind_of(op),
        status=as_text(span.get("status")),
        attributes=merged | _database_attributes(op, span.get("description"), merged),
    )


def _make_span(
    span: Mapping[str, Any], *, end: Any, name: str, kind: int, status: str, attributes: Mapping[str, Any]
) -> dict[str, Any] | None:
    trace_id, span_id = as_hex(span.get("trace_id"), 32), as_hex(span.get("span_id"), 16)
    start_ns, end_ns = as_nanoseconds(span.get("start_timestamp")), as_nanoseconds(end)
    if not trace_id or not span_id or start_ns is None or end_ns is None or end_ns < start_ns:
        return None
    converted: dict[str, Any] = {
        "traceId": trace_id,
        "spanId": span_id,
        "name": name,
        "kind": kind,
        "startTimeUnixNano": start_ns,
        "endTimeUnixNano": end_ns,
        "attributes": otlp_attributes(attributes),
    }
    if parent := as_hex(span.get("parent_span_id"), 16):
        converted["parentSpanId"] = parent
    if status == "ok":
        converted["status"] = {"code": _OK}
    elif status in _SERVER_FAULTS or (kind == _CLIENT and status not in _NO_FAULTS):
        converted["status"] = {"code": _ERROR, "message": status}
    return converted


def _kind_of(op: str) -> int:
    """Return the kind of a span by its operation (https://develop.sentry.dev/sdk/telemetry/traces/span-operations/)."""
    if op.endswith(".server"):
        return _SERVER
    if op.endswith(".client") or op == "db" or op.startswith(("db.", "cache.")):
        return _CLIENT
    if op in ("queue.publish", "queue.create") or op.startswith(("queue.submit", "queue.publish.")):
        return _PRODUCER
    if op.startswith(("queue.process", "queue.task", "queue.receive")):
        return _CONSUMER
    return _INTERNAL


def _database_attributes(op: str, statement: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a database span that the report of queries needs and that the SDK has not sent."""
    if op != "db" and not op.startswith("db."):
        return {}
    found: dict[str, Any] = {}
    if not known.get("db.system.name") and not known.get("db.system"):
        system = op.partition(".")[2].partition(".")[0]
        found["db.system"] = system if system and system != "sql" else "other_sql"
    if not known.get("db.query.text") and not known.get("db.statement"):
        found["db.query.text"] = as_text(statement, 4000) or None
    return found
