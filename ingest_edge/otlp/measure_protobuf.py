"""Upper bounds of the rows' bytes of a request in protobuf, for `check_expansion`."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ingest_edge.otlp.expansion import EVENT_BYTES, EXEMPLAR_BYTES, Coding

_KINDS = ("gauge", "sum", "histogram", "exponential_histogram", "summary")
# What JSON escapes: up to seven bytes each in a list, which is text in the row.
_ESCAPED = bytes(range(32)) + b'"\\'
_ESCAPED_BYTES = 7
# The rest: a count of one byte takes four with its comma, eight bytes of a double take twenty-five.
_OTHER_BYTES = 4

_encode = msgspec.json.Encoder().encode


def points_of(metric: Any, kind: str | None) -> Any:
    """The data points of the metric, which is of this kind; none of a kind that is not stored."""
    return getattr(metric, kind).data_points if kind in _KINDS else ()


def shared_by_logs(request: Any) -> int:
    """Bytes that the rows of all log records repeat; the same for the other signals below."""
    return _shared(request.resource_logs, "scope_logs", lambda of_scope: len(of_scope.log_records))


def shared_by_spans(request: Any) -> int:
    return _shared(request.resource_spans, "scope_spans", lambda of_scope: len(of_scope.spans))


def shared_by_points(request: Any) -> int:
    size = 0

    def count(of_scope: Any) -> int:
        nonlocal size
        points = 0
        for metric in of_scope.metrics:
            found = len(points_of(metric, metric.WhichOneof("data")))
            size += found * sum(_text(text) for text in (metric.name, metric.description, metric.unit))
            points += found
        return points

    shared = _shared(request.resource_metrics, "scope_metrics", count)
    return shared + size


def children_of_logs(_request: Any) -> int:
    """Bytes that a row adds to those of its record in the body; the same for the other signals below."""
    return 0


def children_of_spans(request: Any) -> int:
    children = sum(
        len(span.events) + len(span.links)
        for of_resource in request.resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    )
    return EVENT_BYTES * children


def children_of_points(request: Any) -> int:
    exemplars = sum(
        len(point.exemplars)
        for of_resource in request.resource_metrics
        for of_scope in of_resource.scope_metrics
        for metric in of_scope.metrics
        if (kind := metric.WhichOneof("data")) != "summary"
        for point in points_of(metric, kind)
    )
    return EXEMPLAR_BYTES * exemplars


def _measure_text(body: bytes) -> int:
    escaped = len(body) - len(body.translate(None, _ESCAPED))
    return _ESCAPED_BYTES * escaped + _OTHER_BYTES * (len(body) - escaped)


PROTOBUF = Coding(shared=14, own=64, text=_ESCAPED_BYTES, measure_text=_measure_text)


def _shared(resources: Any, name: str, count: Callable[[Any], int]) -> int:
    size = 0
    for of_resource in resources:
        of_all = _text(of_resource.schema_url) + sum(_resource_attributes(of_resource.resource))
        for of_scope in getattr(of_resource, name):
            scope = of_scope.scope
            of_one = _text(of_scope.schema_url) + _text(scope.name) + _text(scope.version)
            of_one += sum(_attribute(attribute) for attribute in scope.attributes)
            size += (of_all + of_one) * count(of_scope)
    return size


def _resource_attributes(resource: Any) -> Iterator[int]:
    for attribute in resource.attributes:
        # This one has a column of its own too.
        yield _attribute(attribute) * (2 if attribute.key == "service.name" else 1)


def _attribute(attribute: Any) -> int:
    value = attribute.value
    if value.WhichOneof("value") == "string_value":
        return _text(attribute.key) + _text(value.string_value)
    # A number, or a list: rarely large.
    size: int = value.ByteSize()
    return _text(attribute.key) + _ESCAPED_BYTES * size


def _text(text: str) -> int:
    """Bytes of a string in a row, with its quotes and what comes after."""
    return len(_encode(text)) + 2
