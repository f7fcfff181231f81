"""Repairs the document of an OTLP body that the fast decoder has refused, as far as its values can be represented.

snake_case members get their lowerCamelCase names; integers beyond 64 bits and doubles beyond 1.8e308 become doubles
(±Infinity); base64 gets the standard alphabet. Nothing here raises for a wrong type: what stays wrong is refused by
`leave_out` or by the decoder.
"""

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, get_args, get_origin

import msgspec

from pipeline_contracts.errors import InvalidInput
from pipeline_contracts.otlp.values import LATEST_NANOSECONDS, Int64

_MOST_UINT64 = 2**64 - 1
_MOST_INT64 = 2**63 - 1
_LEAST_INT64 = -(2**63)
# Digits and a sign: more can be no integer of 64 bits, and int() takes quadratic time.
_LONGEST_INTEGER = 20
# Where an integer goes that its own member cannot hold.
_AS_DOUBLE: Final = {"intValue": "doubleValue", "asInt": "asDouble"}
_END = "endTimeUnixNano"
_CAPITAL = re.compile("[A-Z]")
_URL_SAFE = str.maketrans("-_", "+/")


def _read_integer(text: str) -> int | float:
    return int(text) if len(text) <= _LONGEST_INTEGER else float(text)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


# The one decoder here that gives infinity for 1e400 instead of refusing it.
_read = json.JSONDecoder(parse_int=_read_integer, parse_constant=_refuse_constant).decode


def read_document(body: bytes) -> Any:
    """The JSON of a body in UTF-8. Raises `InvalidInput`, and `RecursionError` for what is nested too deeply."""
    try:
        return _read(body.decode())
    except ValueError as error:
        raise InvalidInput(f"The body is not valid JSON: {error}.") from error


Repair = Callable[[dict[str, Any], str], None]


class Shape:
    """What the members of a struct are called, what they hold, and how odd values of them are repaired."""

    __slots__ = ("snake", "children", "closed", "repairs")

    def __init__(self, type_: type[msgspec.Struct]) -> None:
        fields = [field for field in msgspec.structs.fields(type_) if "_" not in field.encode_name]
        names = {field.encode_name: _CAPITAL.sub(_lower, field.encode_name) for field in fields}
        # snake_case names with what they stand for.
        self.snake = {snake: name for name, snake in names.items() if snake != name}
        # The structs in them, straight or in lists.
        self.children = {
            field.encode_name: child for field in fields if (child := _struct_in(field.type)) is not None
        }
        # The members that there may be; None: others are passed over.
        self.closed = set(names) if type_.__struct_config__.forbid_unknown_fields else None
        self.repairs: Mapping[str, Repair] = {
            name: found for name, found in ((one.encode_name, _repair_of(one)) for one in fields) if found
        }


@lru_cache
def shape_of(type_: type[msgspec.Struct]) -> Shape:
    """The shape of a struct."""
    return Shape(type_)


def repair(value: Any, type_: type[msgspec.Struct]) -> None:
    """Repair a value that should be of this type, in place and through all levels."""
    if isinstance(value, list):
        for member in value:
            repair(member, type_)
        return
    if not isinstance(value, dict):
        return
    shape = shape_of(type_)
    for name in list(value):
        if name in shape.snake:
            value[shape.snake[name]] = value.pop(name)
        elif shape.closed is not None and name not in shape.closed:
            del value[name]
    for name, repair_member in shape.repairs.items():
        if name in value:
            repair_member(value, name)
    for name, child in shape.children.items():
        if name in value:
            repair(value[name], child)


def _lower(found: re.Match[str]) -> str:
    return "_" + found[0].lower()


def _struct_in(type_: Any) -> type[msgspec.Struct] | None:
    for part in get_args(type_) or (type_,):
        inner = get_args(part)[0] if get_origin(part) is list else part
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            return inner
    return None


def _repair_of(field: msgspec.structs.FieldInfo) -> Repair | None:
    if field.encode_name.endswith("UnixNano"):
        return _repair_time
    parts = get_args(field.type) or (field.type,)
    kinds = (
        (float, _repair_double),
        (list[float], _repair_doubles),
        (Int64, _repair_integer),
        (bytes, _repair_bytes),
    )
    return next((found for kind, found in kinds if kind in parts), None)


def _repair_double(holder: dict[str, Any], name: str) -> None:
    holder[name] = _double(holder[name])


def _repair_doubles(holder: dict[str, Any], name: str) -> None:
    if isinstance(holder[name], list):
        holder[name] = [_double(member) for member in holder[name]]


def _double(given: Any) -> Any:
    """A number beyond the range as the name that JSON has for it (proto3 JSON mapping); all else as it is."""
    if isinstance(given, str | float):
        try:
            number = float(given)
        except ValueError:
            return given
        if math.isinf(number):
            return "Infinity" if number > 0 else "-Infinity"
    return given


def _repair_integer(holder: dict[str, Any], name: str) -> None:
    number = _number(holder[name])
    if number is None or (isinstance(number, int) and _LEAST_INT64 <= number <= _MOST_INT64):
        return
    if isinstance(number, float) and abs(number) < -_LEAST_INT64:
        if number.is_integer():
            holder[name] = int(number)
        return
    del holder[name]
    holder[_AS_DOUBLE[name]] = _double(float(number))


def _number(given: Any) -> int | float | None:
    """The number that is given as one or as text; None for anything else, NaN too."""
    if isinstance(given, str):
        try:
            given = _read_integer(given)
        except ValueError:
            try:
                given = float(given)
            except ValueError:
                return None
    if isinstance(given, bool) or not isinstance(given, int | float) or math.isnan(given):
        return None
    return given


def _repair_time(holder: dict[str, Any], name: str) -> None:
    """A time that no column holds becomes the latest one, of which the consumer makes the time of receipt.

    Except the end of a span where it has more than 64 bits: the duration would be invented.
    """
    number = _number(holder[name])
    if number is not None and number > LATEST_NANOSECONDS and (name != _END or number <= _MOST_UINT64):
        holder[name] = LATEST_NANOSECONDS


def _repair_bytes(holder: dict[str, Any], name: str) -> None:
    """Both alphabets are valid, with padding or without (proto3 JSON mapping)."""
    given = holder[name]
    if not isinstance(given, str):
        return
    text = given.translate(_URL_SAFE).rstrip("=")
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return
    holder[name] = base64.b64encode(data).decode()
