"""Upper bounds of the rows' bytes of a request in JSON, for `check_expansion`."""

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

# A bound or a quantile: `1e15` is written with seventeen digits.
_NUMBER_BYTES = 24

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode


class _OfResource(Protocol):
    resource: Resource | None
    schemaUrl: str | None


class _OfScope(Protocol):
    scope: Scope | None
    schemaUrl: str | None


def shared_by_logs(request: LogsRequest) -> int:
    """Bytes that the rows of all log records repeat; the same for the other signals below."""
    return sum(len(records) * shared for shared, records in _by_scope(request.by_scope()))


def shared_by_spans(request: TracesRequest) -> int:
    return sum(len(spans) * shared for shared, spans in _by_scope(request.by_scope()))


def shared_by_points(request: MetricsRequest) -> int:
    size = 0
    for shared, metrics in _by_scope(request.by_scope()):
        for metric in metrics:
            described = len(_encode((metric.name, metric.description, metric.unit)))
            size += (shared + described) * sum(
                len(data.dataPoints or ()) for _, data in metric.data_by_kind()
            )
    return size


def children_of_logs(_request: LogsRequest) -> int:
    """Bytes that a row adds to those of its record in the body; the same for the other signals below."""
    return 0


def children_of_spans(request: TracesRequest) -> int:
    children = 0
    for _, _, spans in request.by_scope():
        children += sum([len(span.events) for span in spans if span.events])
        children += sum([len(span.links) for span in spans if span.links])
    return EVENT_BYTES * children


def children_of_points(request: MetricsRequest) -> int:
    return sum(
        _added_by(data.dataPoints or ())
        for _, _, metrics in request.by_scope()
        for metric in metrics
        for _, data in metric.data_by_kind()
    )


def _added_by(points: Iterable[DataPoint]) -> int:
    size = 0
    for point in points:
        if isinstance(point, SummaryPoint):
            size += 2 * _NUMBER_BYTES * len(point.quantileValues or ())
        else:
            size += EXEMPLAR_BYTES * len(point.exemplars or ())  # type: ignore[attr-defined]
            if isinstance(point, HistogramPoint):
                size += _NUMBER_BYTES * len(point.explicitBounds or ())
    return size


def _by_scope(scopes: Iterable[tuple[_OfResource, _OfScope, T]]) -> Iterator[tuple[int, T]]:
    """Yield the bytes that each record of a scope repeats, and what is in the scope.

    Each resource is measured once: a large one may have a hundred thousand scopes.
    """
    measured: _OfResource | None = None
    size = 0
    for of_resource, of_scope, held in scopes:
        if of_resource is not measured:
            measured, size = of_resource, _of_resource(of_resource)
        yield size + _with_escapes(_encode((of_scope.scope, of_scope.schemaUrl))), held


def _of_resource(of_resource: _OfResource) -> int:
    resource = of_resource.resource
    size = _with_escapes(_encode((resource, of_resource.schemaUrl)))
    for attribute in (resource.attributes if resource is not None else None) or ():
        if attribute.key == "service.name":
            # It has a column of its own too.
            size += _with_escapes(_encode(attribute.value))
    return size


def _with_escapes(text: bytes) -> int:
    """Bytes of the text in a row. Lists and maps are text in it, whose escapes are escaped once more."""
    return len(text) + 2 * text.count(b"\\")


JSON = Coding(shared=4, own=43, text=3, measure_text=_with_escapes)
