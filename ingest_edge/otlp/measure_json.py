"""Measure upper bounds of the rows of a request in JSON, for `check_expansion`."""

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

import msgspec

from ingest_edge.otlp.expansion import EVENT_BYTES, EXEMPLAR_BYTES, Coding
from pipeline_contracts.otlp.logs import LogsRequest
from pipeline_contracts.otlp.metrics import (
    DataPoint,
    HistogramPoint,
    MetricsRequest,
    SummaryPoint,
)
from pipeline_contracts.otlp.traces import TracesRequest
from pipeline_contracts.otlp.values import Resource, Scope

NUMBER_BYTES = 24
"""Size of a bound or a quantile: `1e15` is written with seventeen digits."""

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode


class _ResourceGroup(Protocol):
    resource: Resource | None
    schemaUrl: str | None


class _ScopeGroup(Protocol):
    scope: Scope | None
    schemaUrl: str | None


def shared_bytes_of_logs(request: LogsRequest) -> int:
    """Return the bytes that the rows of all log records repeat; the same for the other signals below."""
    return sum(len(records) * shared for shared, records in _by_scope(request.by_scope()))


def shared_bytes_of_spans(request: TracesRequest) -> int:
    return sum(len(spans) * shared for shared, spans in _by_scope(request.by_scope()))


def shared_bytes_of_points(request: MetricsRequest) -> int:
    size = 0
    for shared, metrics in _by_scope(request.by_scope()):
        for metric in metrics:
            described = len(_encode((metric.name, metric.description, metric.unit)))
            size += (shared + described) * sum(
                len(data.dataPoints or ()) for _, data in metric.data_by_kind()
            )
    return size


def child_bytes_of_logs(_request: LogsRequest) -> int:
    """Return the bytes that all rows add to those of the records in the body; the same for the other signals below."""
    return 0


def child_bytes_of_spans(request: TracesRequest) -> int:
    children = 0
    for _, _, spans in request.by_scope():
        children += sum([len(span.events) for span in spans if span.events])
        children += sum([len(span.links) for span in spans if span.links])
    return EVENT_BYTES * children


def child_bytes_of_points(request: MetricsRequest) -> int:
    return sum(
        _child_bytes(data.dataPoints or ())
        for _, _, metrics in request.by_scope()
        for metric in metrics
        for _, data in metric.data_by_kind()
    )


def _child_bytes(points: Iterable[DataPoint]) -> int:
    size = 0
    for point in points:
        if isinstance(point, SummaryPoint):
            size += 2 * NUMBER_BYTES * len(point.quantileValues or ())
        else:
            size += EXEMPLAR_BYTES * len(point.exemplars or ())  # type: ignore[attr-defined]
            if isinstance(point, HistogramPoint):
                size += NUMBER_BYTES * len(point.explicitBounds or ())
    return size


def _by_scope(scopes: Iterable[tuple[_ResourceGroup, _ScopeGroup, T]]) -> Iterator[tuple[int, T]]:
    """Yield the bytes that each record of a scope repeats, and the records of the scope.

    Each resource is measured once: a large one may have a hundred thousand scopes.
    """
    measured: _ResourceGroup | None = None
    size = 0
    for resource_group, scope_group, records in scopes:
        if resource_group is not measured:
            measured, size = resource_group, _resource_bytes(resource_group)
        yield size + _escaped_bytes(_encode((scope_group.scope, scope_group.schemaUrl))), records


def _resource_bytes(resource_group: _ResourceGroup) -> int:
    resource = resource_group.resource
    size = _escaped_bytes(_encode((resource, resource_group.schemaUrl)))
    for attribute in (resource.attributes if resource is not None else None) or ():
        if attribute.key == "service.name":
            # This attribute also has a separate column.
            size += _escaped_bytes(_encode(attribute.value))
    return size


def _escaped_bytes(text: bytes) -> int:
    """Return the bytes of a text in a row. Lists and maps are stored as text, whose escapes are escaped again."""
    return len(text) + 2 * text.count(b"\\")


JSON = Coding(shared=4, own=43, text=3, measure_text=_escaped_bytes)
