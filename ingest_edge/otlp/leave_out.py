"""Leaves out of a document the records that cannot be read, so that the others are stored."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from ingest_edge.otlp.repair import shape_of
from ingest_edge.otlp.verdict import MOST_RECORDS, too_many_records
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
# Their attributes nest without end, and have no records in them.
_WITHOUT_RECORDS: Final = frozenset({*_RECORDS, Resource, Scope})


def leave_out_unreadable(document: Any, type_: type[msgspec.Struct]) -> list[str]:
    """Remove the records that are not of their type; return the reason for each of them.

    A resource, scope or metric that cannot be read takes its records with it. One that has none stays, and so does
    what is no object or no list where one should be: such a body has the wrong shape. Raises `PayloadTooLarge`.
    """
    reasons: list[str] = []
    _filter(document, type_, reasons)
    return reasons


def _filter(node: Any, type_: type[msgspec.Struct], reasons: list[str]) -> bool:
    """Whether the node stays."""
    record = _RECORDS.get(type_)
    if record is not None:
        fault = _fault(node, type_)
        if fault is not None:
            reasons.append(f"{record}: {fault}")
            if len(reasons) > MOST_RECORDS:
                raise too_many_records()
        return fault is None
    if not isinstance(node, dict):
        return True
    holders = _holders(type_)
    fault = _fault({name: value for name, value in node.items() if name not in holders}, type_)
    if fault is not None:
        count, record = _count_records(node, type_)
        reasons += [f"{record}: {fault}"] * count
        return not count
    for name, child in holders.items():
        held = node.get(name)
        if isinstance(held, list):
            held[:] = [member for member in held if _filter(member, child, reasons)]
        elif held is not None and child not in _RECORDS and not _filter(held, child, reasons):
            del node[name]
    return True


def _fault(value: Any, type_: type[msgspec.Struct]) -> str | None:
    try:
        msgspec.convert(value, type_, strict=False)
    except msgspec.ValidationError as error:
        return str(error)
    return None


@lru_cache
def _holders(type_: type[msgspec.Struct]) -> Mapping[str, type[msgspec.Struct]]:
    """The members in which records lie, at whatever depth."""
    children = shape_of(type_).children if type_ not in _WITHOUT_RECORDS else {}
    return {name: child for name, child in children.items() if child in _RECORDS or _holders(child)}


def _count_records(node: Any, type_: type[msgspec.Struct]) -> tuple[int, str]:
    """Return the number of records below the node, and their kind."""
    if type_ in _RECORDS:
        return 1, _RECORDS[type_]
    found, called = 0, ""
    for name, child in _holders(type_).items() if isinstance(node, dict) else ():
        held = node.get(name)
        for member in held if isinstance(held, list) else [held] * (held is not None):
            count, record = _count_records(member, child)
            found, called = found + count, record or called
    return found, called
