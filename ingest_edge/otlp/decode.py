"""From the JSON of an OTLP body to typed structs."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, get_args, get_origin

import msgspec

from ingest_edge.decoders.nesting import is_nested_deeper
from ingest_edge.decoders.utf8 import first_bad_byte
from ingest_edge.limits import Limits
from pipeline_contracts.errors import InvalidInput, PayloadTooLarge
from pipeline_contracts.otlp.values import NestedValues

# Each object costs a hundred bytes while it is decoded, and takes three to write.
_COUNTED_FROM = 2 * 2**20
_MOST_OBJECTS = 1_000_000


class Decoder:
    """Decodes requests of one type; bodies with snake_case members are renamed first."""

    def __init__(self, type_: type[msgspec.Struct]) -> None:
        # Integers may be strings.
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(type_, strict=False).decode
        self._type = type_

    def decode(self, body: bytes, limits: Limits) -> tuple[Any, bytes]:
        """The request, and the body in which each member has its lowerCamelCase name: the same one, as a rule.

        Raises `InvalidInput` for what is not JSON or not of this shape, `PayloadTooLarge` for too many objects.
        """
        if not body.isascii() and (bad := first_bad_byte(body)) is not None:
            raise InvalidInput(f"The body is not valid UTF-8 (byte {bad}).")
        if len(body) > _COUNTED_FROM and body.count(b"{") > _MOST_OBJECTS:
            raise PayloadTooLarge(f"The body has more than {_MOST_OBJECTS} objects. Send smaller batches.")
        NestedValues.seen = False
        try:
            try:
                request = self._decode(body)
            except msgspec.ValidationError:
                mended = self._mended(body, limits)
                if mended is None:
                    raise
                body = mended
                request = self._decode(body)
        except RecursionError:
            raise InvalidInput("The body is nested too deeply.") from None
        except msgspec.ValidationError as error:
            raise InvalidInput(f"The body has the wrong shape: {error}.") from error
        except msgspec.DecodeError as error:
            raise InvalidInput(f"The body is not valid JSON: {error}.") from error
        if NestedValues.seen and is_nested_deeper(body, limits.json_depth):
            raise InvalidInput(f"The body is nested deeper than {limits.json_depth} levels.")
        return request, body

    def _mended(self, body: bytes, limits: Limits) -> bytes | None:
        """The body with snake_case members renamed, and without members that values do not have; None if there is
        neither."""
        if is_nested_deeper(body, limits.json_depth):
            raise InvalidInput(f"The body is nested deeper than {limits.json_depth} levels.")
        try:
            # Not orjson: it makes floats of what has more than 64 bits.
            document = msgspec.json.decode(body)
        except msgspec.DecodeError:
            return None
        return msgspec.json.encode(document) if _mend(document, self._type) else None


class _Shape:
    """What a struct's members are called, and what they hold."""

    __slots__ = ("snake", "children", "closed")

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


_CAPITAL = re.compile("[A-Z]")


def _lower(found: re.Match[str]) -> str:
    return "_" + found[0].lower()


def _struct_in(type_: Any) -> type[msgspec.Struct] | None:
    for part in get_args(type_) or (type_,):
        inner = get_args(part)[0] if get_origin(part) is list else part
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            return inner
    return None


@lru_cache
def _shape(type_: type[msgspec.Struct]) -> _Shape:
    return _Shape(type_)


def _mend(value: Any, type_: type[msgspec.Struct]) -> bool:
    """Rename members, and drop those that the type refuses, in place and through all levels; whether anything was."""
    if isinstance(value, list):
        found = [_mend(member, type_) for member in value]
        return any(found)
    if not isinstance(value, dict):
        return False
    shape = _shape(type_)
    changed = False
    for name in list(value):
        if name in shape.snake:
            value[shape.snake[name]] = value.pop(name)
            changed = True
        elif shape.closed is not None and name not in shape.closed:
            del value[name]
            changed = True
    for name, child in shape.children.items():
        if name in value:
            changed = _mend(value[name], child) or changed
    return changed
