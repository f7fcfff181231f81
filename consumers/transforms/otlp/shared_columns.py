"""The columns that all rows of a scope share, made into JSON once."""

from typing import TypeVar

import msgspec
from msgspec import Raw

from consumers.transforms.otlp.text_values import text_map
from pipeline_contracts.otlp.records import OtlpMeta
from pipeline_contracts.otlp.values import Resource, Scope
from pipeline_contracts.times import format_time, from_epoch_ms

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode
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


_BEGIN = b'{"ServiceName":'


class Place:
    """Which record the rows are of, and what the edge knew of it."""

    __slots__ = ("meta", "log", "offset", "received_at")

    def __init__(self, meta: OtlpMeta, log: str, offset: int) -> None:
        self.meta = meta
        self.log = log
        self.offset = offset
        self.received_at = format_time(from_epoch_ms(meta.received_ms))

    def shared(
        self,
        resource: Resource | None,
        resource_schema: str | None,
        scope: Scope | None,
        scope_schema: str | None,
        *,
        dropped: bool = False,
    ) -> Raw:
        """The columns of all rows of the scope: the value of `ServiceName`, and behind it the other members.

        A row that has this as its `ServiceName` is written with all of them, for the price of a copy. `dropped`: the
        table counts the scope's dropped attributes.
        """
        attributes = text_map(resource.attributes) if resource is not None else {}
        columns = _Shared(
            attributes.get("service.name", ""),
            attributes,
            self.meta.environment_id,
            self.received_at,
            self.log,
            self.offset,
            resource_schema or "",
        )
        if scope is not None:
            columns.ScopeName = scope.name or ""
            columns.ScopeVersion = scope.version or ""
            columns.ScopeAttributes = text_map(scope.attributes)
            columns.ScopeDroppedAttrCount = (scope.droppedAttributesCount or 0) if dropped else 0
        columns.ScopeSchemaUrl = scope_schema or ""
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
