"""Remove unreadable records from a document, so that the others can be stored."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from ingest_edge.otlp.repair import shape_of
from ingest_edge.otlp.validate_records import MAX_RECORDS, too_many_records
from pipeline_contracts.otlp.logs import OtlpLogRecord
from pipeline_contracts.otlp.metrics import (
    ExponentialHistogramPoint,
    HistogramPoint,
    NumberPoint,
    SummaryPoint,
)
from pipeline_contracts.otlp.traces import Span
from pipeline_contracts.otlp.values import Resource, Scope

_RECORDS: Final[Mapping[type[msgspec.Struct], str]] = {
    Span: "span",
    OtlpLogRecord: "log record",
    NumberPoint: "data point",
    HistogramPoint: "data point",
    ExponentialHistogramPoint: "data point",
    SummaryPoint: "data point",
}
# Types that contain no records. Their attributes nest recursively.
_WITHOUT_RECORDS: Final = frozenset({*_RECORDS, Resource, Scope})


def drop_unreadable(document: Any, type_: type[msgspec.Struct]) -> list[str]:
    """Remove the records that do not fit their type; return the reason for each of them.

    An unreadable resource, scope or metric is removed with its records. It stays if it has no records. A value that
    should be an object or a list stays too: such a body has the wrong shape. Raises `PayloadTooLarge`.
    """
    reasons: list[str] = []
    _filter(document, type_, reasons)
    return reasons


def _filter(node: Any, type_: type[msgspec.Struct], reasons: list[str]) -> bool:
    """Remove unreadable records below the node; return whether the node itself stays."""
    record = _RECORDS.get(type_)
    if record is not None:
        fault = _fault(node, type_)
        if fault is not None:
            reasons.append(f"{record}: {fault}")
            if len(reasons) > MAX_RECORDS:
                raise too_many_records()
        return fault is None
    if not isinstance(node, dict):
        return True
    children = _children(type_)
    fault = _fault({name: value for name, value in node.items() if name not in children}, type_)
    if fault is not None:
        count, record = _count_records(node, type_)
        reasons += [f"{record}: {fault}"] * count
        return not count
    for name, child_type in children.items():
        child = node.get(name)
        if isinstance(child, list):
            child[:] = [item for item in child if _filter(item, child_type, reasons)]
        elif child is not None and child_type not in _RECORDS and not _filter(child, child_type, reasons):
            del node[name]
    return True


def _fault(value: Any, type_: type[msgspec.Struct]) -> str | None:
    try:
        msgspec.convert(value, type_, strict=False)
    except msgspec.ValidationError as error:
        return str(error)
    return None


@lru_cache
def _children(type_: type[msgspec.Struct]) -> Mapping[str, type[msgspec.Struct]]:
    """Return the members that contain records at any depth, with their types."""
    children = shape_of(type_).children if type_ not in _WITHOUT_RECORDS else {}
    return {name: child for name, child in children.items() if child in _RECORDS or _children(child)}


def _count_records(node: Any, type_: type[msgspec.Struct]) -> tuple[int, str]:
    """Return the number of records below the node, and their kind."""
    if type_ in _RECORDS:
        return 1, _RECORDS[type_]
    total, kind = 0, ""
    for name, child_type in _children(type_).items() if isinstance(node, dict) else ():
        child = node.get(name)
        for item in child if isinstance(child, list) else [child] * (child is not None):
            count, record = _count_records(item, child_type)
            total, kind = total + count, record or kind
    return total, kind
