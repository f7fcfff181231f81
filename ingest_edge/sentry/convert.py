"""Convert an envelope to records of the event log, and count the items that are not kept.

Each record has an identity: the ID of an event or a transaction, or a digest of the content of other items. The
consumers store the first record of an identity, so an envelope that an SDK sends again stores nothing twice.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from ingest_edge.limits import Limits
from ingest_edge.otlp.expansion import EVENT_BYTES, check_expansion
from ingest_edge.otlp.measure_json import JSON
from ingest_edge.sentry.check_ins import CheckIn, read_check_in
from ingest_edge.sentry.envelope import Envelope, Item, read_json
from ingest_edge.sentry.events import convert_event, id_of_event
from ingest_edge.sentry.logs import convert_logs
from ingest_edge.sentry.spans import convert_span, convert_transaction
from ingest_edge.sentry.values import Source, as_dict, as_hex, as_list
from pipeline_contracts import topics
from pipeline_contracts.errors import InvalidInput, PayloadTooLarge

ITEM_BYTES = 2 * 2**20
"""Largest item that is kept. Sentry's own limit of an event is 1 MiB."""
MAX_RECORDS = 10_000
"""Maximum number of events, spans and log records of one envelope, valid or not."""
MAX_VALUES = 500_000
"""Maximum number of JSON values that are decoded from the items of one envelope, counted by their commas."""
# Maximum bytes of all records for each byte that a body may have.
_GROWTH = 2

DropReason = Literal["not_kept", "invalid", "too_large", "too_many", "no_heartbeat"]

_KEPT = frozenset({"event", "transaction", "span", "log", "check_in"})
# Known types of items that are not kept. Other types are counted as `unknown`, so that a sender cannot add names
# without limit.
_NOT_KEPT = frozenset(
    {
        *("attachment", "client_report", "feedback", "form_data", "metric_buckets", "nel"),
        *("otel_log", "otel_span", "profile", "profile_chunk", "raw_security", "replay_event"),
        *("replay_recording", "replay_video", "security", "session", "sessions", "statsd", "trace_metric"),
        *("unreal_report", "user_report"),
    }
)


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the event log."""

    topic: str
    identity: str
    """Identifies the content within the environment: of several records with the same identity, one is stored."""
    count: int
    """Events, spans or log records."""
    body: bytes


@dataclass(slots=True)
class Converted:
    """The result of the conversion of an envelope."""

    event_id: str = ""
    records: list[Record] = field(default_factory=list)
    check_ins: list[CheckIn] = field(default_factory=list)
    dropped: Counter[tuple[str, DropReason]] = field(default_factory=Counter)
    """Items, spans and log records that are not kept, by type of item and reason."""
    record_bytes: int = 0
    """Bytes of all records."""
    members: int = 0
    """Number of events, spans and log records that were read, valid or not."""
    values: int = 0
    """Number of values that were decoded, counted by their commas."""

    def count_members(self, members: int) -> None:
        """Count members before they are converted. Raises `PayloadTooLarge` for too many."""
        if self.members + members > MAX_RECORDS:
            raise PayloadTooLarge(f"The envelope has more than {MAX_RECORDS} events, spans and log records.")
        self.members += members

    def count_values(self, payload: bytes) -> None:
        """Count values before they are decoded. Raises `PayloadTooLarge` for too many."""
        self.values += payload.count(b",")
        if self.values > MAX_VALUES:
            raise PayloadTooLarge(f"The envelope has more than {MAX_VALUES} values of JSON.")

    def append(self, record: Record, limits: Limits) -> None:
        """Append a record. Raises `PayloadTooLarge` if all records together are too large."""
        self.record_bytes += len(record.body)
        if self.record_bytes > _GROWTH * limits.decompressed_bytes:
            raise PayloadTooLarge(
                f"The envelope would become records of more than {_GROWTH * limits.decompressed_bytes} bytes."
            )
        self.records.append(record)

    @property
    def count(self) -> int:
        """Return the number of events, spans and log records that are kept."""
        return sum(record.count for record in self.records)


def convert_envelope(envelope: Envelope, limits: Limits, result: Converted | None = None) -> Converted:
    """Return the records of an envelope.

    `result` is an empty result to fill. If this raises, its `members` is the cost of the envelope.

    Raises `InvalidInput` and `PayloadTooLarge` if nothing can be kept because of a broken or a large item, and
    `PayloadTooLarge` for too many members, too many values or too large records.
    """
    result = Converted() if result is None else result
    result.event_id = as_hex(envelope.header.get("event_id"), 32)
    spans, logs = _spans(), _logs()
    sdk = as_dict(envelope.header.get("sdk"))
    for item in envelope.items:
        content = _read_kept(item, result)
        if content is None:
            continue
        result.count_members(_count_members(item, content))
        match item.type:
            case "span":
                spans.add(convert_span(content, sdk), item, result, limits)
            case "log":
                logs.add(convert_logs(content, sdk), item, result, limits)
            case "check_in":
                _add_check_in(content, result)
            case "event" if content.get("type") != "transaction":
                _add_event(item, content, envelope, limits, result)
            case _:
                _add_transaction(item, content, envelope, limits, result)
    spans.append_to(result, f"sentry:spans:{spans.digest}", limits)
    logs.append_to(result, f"sentry:logs:{logs.digest}", limits)
    if not result.records and not result.check_ins:
        _refuse_broken(result.dropped)
    return result


def _read_kept(item: Item, result: Converted) -> dict[str, Any] | None:
    """Return the content of an item that is kept; count any other as dropped."""
    if item.type not in _KEPT:
        result.dropped[item.type if item.type in _NOT_KEPT else "unknown", "not_kept"] += 1
    elif len(item.payload) > ITEM_BYTES:
        result.dropped[item.type, "too_large"] += 1
    else:
        result.count_values(item.payload)
        try:
            content = read_json(item.payload)
        except (ValueError, RecursionError):
            content = None
        if isinstance(content, dict):
            return content
        result.dropped[item.type, "invalid"] += 1
    return None


def _count_members(item: Item, content: dict[str, Any]) -> int:
    """Return the number of events, spans and log records of an item, valid or not."""
    match item.type:
        case "check_in":
            return 0
        case "span" | "log":
            items = content.get("items")
            return len(items) if isinstance(items, list) else 1
        case "event" if content.get("type") != "transaction":
            return 1
        case _:
            return 1 + len(as_list(content.get("spans")))


def _refuse_broken(dropped: Mapping[tuple[str, DropReason], int]) -> None:
    for (name, reason), _ in dropped.items():
        if reason == "too_large":
            raise PayloadTooLarge(
                f"The item `{name}` is over its limit; an item may have {ITEM_BYTES} bytes."
            )
        if reason == "invalid":
            raise InvalidInput(
                f"The item `{name}` is not valid: it is no JSON object, or has no valid IDs and times."
            )


class _Signal:
    """Spans or log records, and a digest of the items that contained them."""

    def __init__(self, topic: str, names: tuple[str, str, str]) -> None:
        self._topic = topic
        self._names = names
        self._by_source: dict[Source, list[orjson.Fragment]] = {}
        self._count = 0
        self._digest = hashlib.sha256()

    @property
    def digest(self) -> str:
        """The digest of all items, as hexadecimal digits."""
        return self._digest.hexdigest()

    def add(
        self,
        converted: tuple[list[tuple[Source, dict[str, Any]]], int],
        item: Item,
        result: Converted,
        limits: Limits,
    ) -> None:
        """Add the records of an item, and count its invalid and too large records."""
        records, invalid = converted
        if invalid:
            result.dropped[item.type, "invalid"] += invalid
        # The length separates items, so that no two lists of items have the same digest.
        self._digest.update(b"%d " % len(item.payload))
        self._digest.update(item.payload)
        for source, record in records:
            encoded = orjson.dumps(record)
            if len(encoded) > limits.event_bytes:
                result.dropped[item.type, "too_large"] += 1
                continue
            self._by_source.setdefault(source, []).append(orjson.Fragment(encoded))
            self._count += 1

    def append_to(self, result: Converted, identity: str, limits: Limits) -> None:
        """Append the OTLP request with all records, if there are any. Raises `PayloadTooLarge` for too large rows."""
        if not self._count:
            return
        resources, scopes, records = self._names
        groups = []
        shared = 0
        for source, fragments in self._by_source.items():
            resource = orjson.dumps({"attributes": source.attributes()})
            scope = {"name": source.sdk, "version": source.sdk_version}
            shared += len(fragments) * JSON.shared * len(resource)
            groups.append(
                {"resource": orjson.Fragment(resource), scopes: [{"scope": scope, records: fragments}]}
            )
        body = orjson.dumps({resources: groups})
        # Each span and each link has a trace ID.
        links = body.count(b'"traceId"') * EVENT_BYTES
        check_expansion(JSON, body, self._count, lambda: shared, lambda: links, limits.expanded_bytes)
        result.append(Record(self._topic, identity, self._count, body), limits)


def _spans() -> _Signal:
    return _Signal(topics.TRACES, ("resourceSpans", "scopeSpans", "spans"))


def _logs() -> _Signal:
    return _Signal(topics.LOGS, ("resourceLogs", "scopeLogs", "logRecords"))


def _add_check_in(content: dict[str, Any], result: Converted) -> None:
    try:
        result.check_ins.append(read_check_in(content))
    except InvalidInput:
        result.dropped["check_in", "invalid"] += 1


def _add_event(
    item: Item, content: dict[str, Any], envelope: Envelope, limits: Limits, result: Converted
) -> None:
    event_id = id_of_event(content, envelope.header, item.payload)
    identity = f"sentry:event:{event_id}"
    body = convert_event(content, event_id, identity, limits.event_bytes)
    if len(body) > limits.event_bytes:
        result.dropped[item.type, "too_large"] += 1
        return
    result.event_id = result.event_id or event_id
    result.append(Record(topics.TELEMETRY, identity, 1, body), limits)


def _add_transaction(
    item: Item, content: dict[str, Any], envelope: Envelope, limits: Limits, result: Converted
) -> None:
    event_id = id_of_event(content, envelope.header, item.payload)
    signal = _spans()
    signal.add(convert_transaction(content), item, result, limits)
    signal.append_to(result, f"sentry:transaction:{event_id}", limits)
    result.event_id = result.event_id or event_id
