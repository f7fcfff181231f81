"""Attributes, values, resources and scopes, which all signals share."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
# The protocol allows 64 bits without a sign; the column has a sign.
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
LATEST_NANOSECONDS = 2**63 - 1
Nanoseconds = Annotated[int, Meta(ge=0, le=LATEST_NANOSECONDS)]
"""Nanoseconds since 1970. Clocks may be wrong: the edge replaces later times by the latest one, and the consumer
corrects times that no column can store."""
UInt32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]

SnakeCase = Literal["\0"] | None
"""The type of a snake_case member. It accepts no value, so a body with such a member fails to decode; the edge then
renames the member and decodes the body again."""


class AnyValue(Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """One value: the first member that is set counts; without any member it is the empty value.

    Unknown members are forbidden so that they are found without cost for valid bodies, which have ten values a span.
    A body that has some is repaired and decoded again.
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
    """The source of the data: a process, a pod, a browser."""

    attributes: list[KeyValue] | None = None


class Scope(Struct, omit_defaults=True, gc=False):
    """The instrumentation library that made the data."""

    name: str | None = None
    version: str | None = None
    attributes: list[KeyValue] | None = None
    droppedAttributesCount: UInt32 | None = None
    dropped_attributes_count: SnakeCase = None
