"""The columns that all rows of a scope share, made into JSON once."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

import msgspec
from msgspec import Raw

from consumers.transforms.otlp.text_values import text_map
from pipeline_contracts.otlp.records import OtlpMeta
from pipeline_contracts.otlp.values import Resource, Scope
from pipeline_contracts.times import format_time, from_epoch_ms

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines
# What DateTime64(9) holds ends in 2262; a nanosecond clock that says more is wrong.
_LATEST_NS = 9_200_000_000_000_000_000
_EARLIEST_19_DIGITS = 10**18


class _Shared(msgspec.Struct, omit_defaults=True, gc=False):
    ServiceName: str
    ResourceAttributes: dict[str, str]
    EnvironmentId: str
    ReceivedAt: str
    log: str
    log_offset: int
    ResourceSchemaUrl: str = ""
    ScopeName: str = ""
    ScopeVersion: str = ""
    ScopeAttributes: dict[str, str] = {}
    ScopeSchemaUrl: str = ""
    ScopeDroppedAttrCount: int = 0


class _OfResource(Protocol):
    resource: Resource | None
    schemaUrl: str | None


class _OfScope(Protocol):
    scope: Scope | None
    schemaUrl: str | None


_BEGIN = b'{"ServiceName":'


class Place:
    """Which record the rows are of, and what the edge knew of it."""

    __slots__ = ("meta", "log", "offset", "received_at")

    def __init__(self, meta: OtlpMeta, log: str, offset: int) -> None:
        self.meta = meta
        self.log = log
        self.offset = offset
        self.received_at = format_time(from_epoch_ms(meta.received_ms))

    def shared(self, of_resource: _OfResource, of_scope: _OfScope, *, dropped: bool = False) -> Raw:
        """The columns of all rows of the scope: the value of `ServiceName`, and behind it the other members.

        A row that has this as its `ServiceName` is written with all of them, for the price of a copy. `dropped`: the
        table counts the scope's dropped attributes.
        """
        resource, scope = of_resource.resource, of_scope.scope
        attributes = text_map(resource.attributes) if resource is not None else {}
        columns = _Shared(
            attributes.get("service.name", ""),
            attributes,
            self.meta.environment_id,
            self.received_at,
            self.log,
            self.offset,
            of_resource.schemaUrl or "",
        )
        if scope is not None:
            columns.ScopeName = scope.name or ""
            columns.ScopeVersion = scope.version or ""
            columns.ScopeAttributes = text_map(scope.attributes)
            columns.ScopeDroppedAttrCount = (scope.droppedAttributesCount or 0) if dropped else 0
        columns.ScopeSchemaUrl = of_scope.schemaUrl or ""
        return Raw(_encode(columns)[len(_BEGIN) : -1])

    def time(self, nanoseconds: int | None) -> str:
        """A time as the tables read it: 19 digits. One that no column holds is the time of receipt."""
        nanoseconds = nanoseconds or 0
        if _EARLIEST_19_DIGITS <= nanoseconds <= _LATEST_NS:
            return str(nanoseconds)
        if nanoseconds > _LATEST_NS:
            nanoseconds = self.meta.received_ms * 1_000_000
        return f"{nanoseconds:019d}"


class Chosen:
    """Tells, record by record in the order of the body, which the edge has taken."""

    __slots__ = ("_rejected", "_place")

    def __init__(self, rejected: tuple[int, ...]) -> None:
        self._rejected = frozenset(rejected)
        self._place = -1

    def of(self, records: list[T]) -> list[T]:
        """Those of the next records that were taken."""
        if not self._rejected:
            return records
        begin = self._place + 1
        self._place += len(records)
        return [record for place, record in enumerate(records, begin) if place not in self._rejected]


TablePiece = tuple[str, bytes, int]
"""(table, JSON lines, rows)."""

PIECE_BYTES = 8 * 2**20
"""What the rows of one piece may repeat of their resource and scope."""


def rows_of(
    table: str,
    scopes: Iterable[tuple[_OfResource, _OfScope, list[T]]],
    row: Callable[[T, Place, Raw], msgspec.Struct],
    place: Place,
) -> Iterator[TablePiece]:
    """The rows of all records that the edge has taken, of a signal that has one table, a piece or more for a scope."""
    chosen = Chosen(place.meta.rejected)
    for of_resource, of_scope, records in scopes:
        if taken := chosen.of(records):
            shared = place.shared(of_resource, of_scope)
            for some in in_pieces(taken, memoryview(shared).nbytes):
                yield table, _encode_lines([row(record, place, shared) for record in some]), len(some)


def in_pieces(records: list[T], shared: int) -> Iterator[list[T]]:
    """The records, so many at once that what they repeat, `shared` bytes each, is a piece."""
    most = PIECE_BYTES // (shared + 1) or 1
    if len(records) <= most:
        yield records
        return
    for begin in range(0, len(records), most):
        yield records[begin : begin + most]


def hex_id(text: str | None, digits: int) -> str:
    """An ID in lower case; nothing for one that is none, or all 0."""
    if not text or len(text) != digits:
        return ""
    try:
        number = bytes.fromhex(text)
    except ValueError:
        return ""
    # fromhex passes over spaces.
    return number.hex() if len(number) * 2 == digits and any(number) else ""
