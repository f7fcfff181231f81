"""Count dropped items of envelopes by environment, type and reason, for their owners and for the operator.

Owners see them as the metric `pharos.sentry.dropped_items` of the environment: every few seconds the counts become data
points, as if an OTLP sender had sent them.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Mapping

import orjson

from ingest_edge.drop_counts import CountRecord, DropCounts
from ingest_edge.sentry.convert import DropReason
from pipeline_contracts import topics
from pipeline_contracts.identifiers import receipt_name
from pipeline_contracts.otlp.records import OtlpMeta, encode_otlp_meta
from storage_backends.event_log.interface import EventLog
from storage_backends.key_directory.interface import KeyEntry

METRIC = "pharos.sentry.dropped_items"
_DESCRIPTION = "Items, spans and log records of Sentry SDKs that were accepted and not kept"
_DELTA = 1

_Owner = tuple[str, str, str]
"""The IDs of the account, the project and the environment."""
_Reason = tuple[str, DropReason]
"""The type of the item and why it was dropped."""


class DroppedItems(DropCounts[_Owner, _Reason]):
    """Counts of dropped items since the last flush, and in total. The owners are environments."""

    def __init__(self, log: EventLog, now_ms: Callable[[], int]) -> None:
        super().__init__(log, topics.METRICS, now_ms, _make_record)
        self.total: Counter[tuple[str, str]] = Counter()
        """Counts of this process by type of item and reason."""

    def count(self, key: KeyEntry, dropped: Mapping[_Reason, int]) -> None:
        """Count items that are dropped now from an envelope with this key."""
        if dropped:
            self.add((key.account_id, key.project_id, key.environment_id), dropped)
            self.total.update(dropped)


def _make_record(owner: _Owner, dropped: Mapping[_Reason, int], since_ms: int, now_ms: int) -> CountRecord:
    identity = f"sentry:dropped:{uuid.uuid4()}"
    meta = encode_otlp_meta(OtlpMeta(*owner, now_ms, len(dropped), batch_id=identity))
    name = receipt_name(owner[2], identity)
    return CountRecord(name.encode(), meta, _make_request(dropped, since_ms, now_ms))


def _make_request(dropped: Mapping[_Reason, int], since_ms: int, now_ms: int) -> bytes:
    """Return an OTLP request with one data point for each type and reason."""
    points = [
        {
            "startTimeUnixNano": since_ms * 1_000_000,
            "timeUnixNano": now_ms * 1_000_000,
            "asInt": items,
            "attributes": [
                {"key": "sentry.item_type", "value": {"stringValue": item_type}},
                {"key": "reason", "value": {"stringValue": reason}},
            ],
        }
        for (item_type, reason), items in sorted(dropped.items())
    ]
    metric = {
        "name": METRIC,
        "description": _DESCRIPTION,
        "unit": "{item}",
        "sum": {"aggregationTemporality": _DELTA, "isMonotonic": True, "dataPoints": points},
    }
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "pharos"}}]}
    return orjson.dumps(
        {"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"metrics": [metric]}]}]}
    )
