"""Makes the columns that all rows of a scope share. They are encoded as JSON only once per scope."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

import msgspec
from msgspec import Raw

from consumers.transforms.otlp.text_values import text_map
from pipeline_contracts.otlp.records import OtlpMeta
from pipeline_contracts.otlp.values import Resource, Scope
from pipeline_contracts.times import format_epoch_ms

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines
# The column type DateTime64(9) ends in 2262. A later time is an error of the sender.
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


class _ResourceGroup(Protocol):
    resource: Resource | None
    schemaUrl: str | None


class _ScopeGroup(Protocol):
    scope: Scope | None
    schemaUrl: str | None


_BEGIN = b'{"ServiceName":'


class RecordOrigin:
    """The log record that the rows come from, and the edge's metadata about it."""

    __slots__ = ("meta", "log", "offset", "received_at")

    def __init__(self, meta: OtlpMeta, log: str, offset: int) -> None:
        self.meta = meta
        self.log = log
        self.offset = offset
        self.received_at = format_epoch_ms(meta.received_ms)

    def shared_columns(
        self, resource_group: _ResourceGroup, scope_group: _ScopeGroup, *, dropped: bool = False
    ) -> Raw:
        """Return the shared columns of a scope as JSON: the value of `ServiceName`, followed by the other members.

        If a row struct has this JSON as its `ServiceName`, encoding the row copies all of these columns. `dropped`:
        the table has a column for the scope's number of dropped attributes.
        """
        resource, scope = resource_group.resource, scope_group.scope
        attributes = text_map(resource.attributes) if resource is not None else {}
        columns = _Shared(
            attributes.get("service.name", ""),
            attributes,
            self.meta.environment_id,
            self.received_at,
            self.log,
            self.offset,
            resource_group.schemaUrl or "",
        )
        if scope is not None:
            columns.ScopeName = scope.name or ""
            columns.ScopeVersion = scope.version or ""
            columns.ScopeAttributes = text_map(scope.attributes)
            columns.ScopeDroppedAttrCount = (scope.droppedAttributesCount or 0) if dropped else 0
        columns.ScopeSchemaUrl = scope_group.schemaUrl or ""
        return Raw(_encode(columns)[len(_BEGIN) : -1])

    def time(self, nanoseconds: int | None) -> str:
        """Return a time as 19 digits, as the tables read it. If no column can hold the time, return the time of
        receipt."""
        nanoseconds = nanoseconds or 0
        if _EARLIEST_19_DIGITS <= nanoseconds <= _LATEST_NS:
            return str(nanoseconds)
        if nanoseconds > _LATEST_NS:
            nanoseconds = self.meta.received_ms * 1_000_000
        return f"{nanoseconds:019d}"


class AcceptedRecords:
    """Selects the records that the edge has accepted. Call `select` for all records, in the order of the body."""

    __slots__ = ("_rejected", "_last_position")

    def __init__(self, rejected: tuple[int, ...]) -> None:
        self._rejected = frozenset(rejected)
        self._last_position = -1

    def select(self, records: list[T]) -> list[T]:
        """Return those of these records, the next ones of the body, that the edge has accepted."""
        if not self._rejected:
            return records
        begin = self._last_position + 1
        self._last_position += len(records)
        return [record for position, record in enumerate(records, begin) if position not in self._rejected]


TablePiece = tuple[str, bytes, int]
"""The table, the JSON lines, and the number of rows."""

PIECE_BYTES = 8 * 2**20
"""How many bytes of the resource and the scope the rows of one piece may repeat at most."""


def encode_rows(
    table: str,
    scopes: Iterable[tuple[_ResourceGroup, _ScopeGroup, list[T]]],
    row: Callable[[T, RecordOrigin, Raw], msgspec.Struct],
    origin: RecordOrigin,
) -> Iterator[TablePiece]:
    """Yield the rows of all accepted records of a signal that has one table. Each scope has one or more pieces."""
    accepted = AcceptedRecords(origin.meta.rejected)
    for resource_group, scope_group, records in scopes:
        if selected := accepted.select(records):
            shared = origin.shared_columns(resource_group, scope_group)
            for piece in split_into_pieces(selected, memoryview(shared).nbytes):
                yield table, _encode_lines([row(record, origin, shared) for record in piece]), len(piece)


def split_into_pieces(records: list[T], shared: int) -> Iterator[list[T]]:
    """Yield the records in lists. The rows of a list repeat at most `PIECE_BYTES`, if each record repeats `shared`
    bytes."""
    limit = PIECE_BYTES // (shared + 1) or 1
    if len(records) <= limit:
        yield records
        return
    for begin in range(0, len(records), limit):
        yield records[begin : begin + limit]


def hex_id(text: str | None, digits: int) -> str:
    """Return the ID in lower case. Return an empty string if the ID is invalid or all zeros."""
    if not text or len(text) != digits:
        return ""
    try:
        number = bytes.fromhex(text)
    except ValueError:
        return ""
    # `fromhex` ignores spaces, so check the length too.
    return number.hex() if len(number) * 2 == digits and any(number) else ""
