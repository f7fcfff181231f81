"""Attributes and their values, resources and scopes: what all signals share."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
# A signed column holds more than anybody counts.
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
LATEST_NANOSECONDS = 2**63 - 1
Nanoseconds = Annotated[int, Meta(ge=0, le=LATEST_NANOSECONDS)]
"""Since 1970. A clock may say anything: what no column holds is set right by the consumer, not refused. The edge
makes the latest one of what is later."""
UInt32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]

SnakeCase = Literal["\0"] | None
"""The type of a member's snake_case name, which fits no value: a body that has one is decoded again, renamed."""


class AnyValue(Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """One value; the first member that is there counts, none is the empty value.

    There are ten of them in a span: other members are found by being refused, which costs nothing where there are
    none. A body that has some is decoded again without them.
    """

    stringValue: str | None = None
    boolValue: bool | None = None
    intValue: Int64 | None = None
    doubleValue: float | None = None
    arrayValue: "ArrayValue | None" = None
    kvlistValue: "KeyValueList | None" = None
    bytesValue: bytes | None = None
    """Base64 in JSON."""


class ArrayValue(Struct, omit_defaults=True, gc=False):
    """A list of values of any kinds."""

    values: list[AnyValue] | None = None


class KeyValue(Struct, omit_defaults=True, gc=False):
    """One attribute."""

    key: str = ""
    value: AnyValue | None = None


class KeyValueList(Struct, omit_defaults=True, gc=False):
    """A map, as a list of its members."""

    values: list[KeyValue] | None = None


class Resource(Struct, omit_defaults=True, gc=False):
    """What sent the data: a process, a pod, a browser."""

    attributes: list[KeyValue] | None = None


class Scope(Struct, omit_defaults=True, gc=False):
    """The library that made the data."""

    name: str | None = None
    version: str | None = None
    attributes: list[KeyValue] | None = None
    droppedAttributesCount: UInt32 | None = None
    dropped_attributes_count: SnakeCase = None
