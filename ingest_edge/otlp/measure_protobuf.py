"""Measure upper bounds of the rows of a request in protobuf, for `check_expansion`."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ingest_edge.otlp.expansion import EVENT_BYTES, EXEMPLAR_BYTES, Coding

_KINDS = ("gauge", "sum", "histogram", "exponential_histogram", "summary")
# Characters that JSON escapes: up to seven bytes each in a list, which is stored as text.
_ESCAPED = bytes(range(32)) + b'"\\'
_ESCAPED_BYTES = 7
# Other bytes: a count of one byte takes four with its comma, the eight bytes of a double take 25.
_OTHER_BYTES = 4

_encode = msgspec.json.Encoder().encode


def points_of(metric: Any, kind: str | None) -> Any:
    """Return the data points of a metric of this kind; none for a kind that is not stored."""
    return getattr(metric, kind).data_points if kind in _KINDS else ()


def shared_bytes_of_logs(request: Any) -> int:
    """Return the bytes that the rows of all log records repeat; the same for the other signals below."""
    return _shared_bytes(request.resource_logs, "scope_logs", lambda group: len(group.log_records))


def shared_bytes_of_spans(request: Any) -> int:
    return _shared_bytes(request.resource_spans, "scope_spans", lambda group: len(group.spans))


def shared_bytes_of_points(request: Any) -> int:
    size = 0

    def count_points(scope_group: Any) -> int:
        nonlocal size
        total = 0
        for metric in scope_group.metrics:
            points = len(points_of(metric, metric.WhichOneof("data")))
            size += points * sum(_text_bytes(text) for text in (metric.name, metric.description, metric.unit))
            total += points
        return total

    shared = _shared_bytes(request.resource_metrics, "scope_metrics", count_points)
    return shared + size


def child_bytes_of_logs(_request: Any) -> int:
    """Return the bytes that all rows add to those of the records in the body; the same for the other signals below."""
    return 0


def child_bytes_of_spans(request: Any) -> int:
    children = sum(
        len(span.events) + len(span.links)
        for resource_group in request.resource_spans
        for scope_group in resource_group.scope_spans
        for span in scope_group.spans
    )
    return EVENT_BYTES * children


def child_bytes_of_points(request: Any) -> int:
    exemplars = sum(
        len(point.exemplars)
        for resource_group in request.resource_metrics
        for scope_group in resource_group.scope_metrics
        for metric in scope_group.metrics
        if (kind := metric.WhichOneof("data")) != "summary"
        for point in points_of(metric, kind)
    )
    return EXEMPLAR_BYTES * exemplars


def _measure_text(body: bytes) -> int:
    escaped = len(body) - len(body.translate(None, _ESCAPED))
    return _ESCAPED_BYTES * escaped + _OTHER_BYTES * (len(body) - escaped)


PROTOBUF = Coding(shared=14, own=64, text=_ESCAPED_BYTES, measure_text=_measure_text)


def _shared_bytes(resources: Any, name: str, count_records: Callable[[Any], int]) -> int:
    size = 0
    for resource_group in resources:
        resource_bytes = _text_bytes(resource_group.schema_url) + sum(
            _resource_bytes(resource_group.resource)
        )
        for scope_group in getattr(resource_group, name):
            scope = scope_group.scope
            scope_bytes = (
                _text_bytes(scope_group.schema_url) + _text_bytes(scope.name) + _text_bytes(scope.version)
            )
            scope_bytes += sum(_attribute_bytes(attribute) for attribute in scope.attributes)
            size += (resource_bytes + scope_bytes) * count_records(scope_group)
    return size


def _resource_bytes(resource: Any) -> Iterator[int]:
    for attribute in resource.attributes:
        # The service's name also has a separate column.
        yield _attribute_bytes(attribute) * (2 if attribute.key == "service.name" else 1)


def _attribute_bytes(attribute: Any) -> int:
    value = attribute.value
    if value.WhichOneof("value") == "string_value":
        return _text_bytes(attribute.key) + _text_bytes(value.string_value)
    # A number, or a list: rarely large.
    size: int = value.ByteSize()
    return _text_bytes(attribute.key) + _ESCAPED_BYTES * size


def _text_bytes(text: str) -> int:
    """Return the bytes of a string in a row, with its quotes and the separators that follow."""
    return len(_encode(text)) + 2
