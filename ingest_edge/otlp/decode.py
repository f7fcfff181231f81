"""From the JSON of an OTLP body to typed structs."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import orjson

from ingest_edge.decoders.nesting import is_nested_deeper
from ingest_edge.decoders.utf8 import first_bad_byte
from ingest_edge.limits import Limits
from pipeline_contracts.errors import InvalidInput, PayloadTooLarge
from pipeline_contracts.otlp.values import NestedValues

T = TypeVar("T", bound=msgspec.Struct)

# Each object costs a hundred bytes while it is decoded, and takes three to write.
_COUNTED_FROM = 2 * 2**20
_MOST_OBJECTS = 1_000_000


class Decoder:
    """Decodes requests of one type; bodies with snake_case members are renamed first."""

    def __init__(self, type_: type[T]) -> None:
        # Integers may be strings.
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(type_, strict=False).decode
        self._names = _snake_names(type_)

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
                renamed = self._renamed(body, limits)
                if renamed is None:
                    raise
                body = renamed
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

    def _renamed(self, body: bytes, limits: Limits) -> bytes | None:
        """The body with snake_case members renamed; None if it has none."""
        if is_nested_deeper(body, limits.json_depth):
            raise InvalidInput(f"The body is nested deeper than {limits.json_depth} levels.")
        try:
            document = orjson.loads(body)
        except orjson.JSONDecodeError:
            return None
        return orjson.dumps(document) if _rename(document, self._names) else None


def _rename(value: Any, names: dict[str, str]) -> bool:
    """Rename in place, through all levels; whether anything was."""
    found = False
    if isinstance(value, dict):
        for name in [name for name in value if name in names]:
            value[names[name]] = value.pop(name)
            found = True
        members = list(value.values())
    elif isinstance(value, list):
        members = value
    else:
        return False
    for member in members:
        found = _rename(member, names) or found
    return found


def _snake_names(type_: type[msgspec.Struct]) -> dict[str, str]:
    """Every snake_case name in the type and the types below it, with the name that it stands for."""
    names: dict[str, str] = {}
    seen: set[type] = set()
    waiting: list[Any] = [msgspec.inspect.type_info(type_)]
    while waiting:
        info = waiting.pop()
        match info:
            case msgspec.inspect.StructType() if info.cls not in seen:
                seen.add(info.cls)
                for field in info.fields:
                    if "_" in field.name:
                        first, *rest = field.name.split("_")
                        names[field.name] = first + "".join(part.title() for part in rest)
                    waiting.append(field.type)
            case msgspec.inspect.UnionType():
                waiting.extend(info.types)
            case msgspec.inspect.ListType():
                waiting.append(info.item_type)
    return names
