"""Finds keys that a JSON body has more than once: programs on the way may have read the other value."""

import json
from typing import Any

_MOST_VALUES = 250_000
_MOST_LISTS = 100_000
"""What is over is refused before it is parsed: a list takes 50 times its own two bytes."""
_LONGEST_NAME = 100


class BadKeys(ValueError):
    """What is wrong with a body: `field` is the key that is there twice, empty for the body as a whole."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class _Repeated(Exception):
    pass


def _see(pairs: list[tuple[str, Any]]) -> None:
    """Look at one object; nothing of it is kept."""
    if len(pairs) > 1 and len({name for name, _ in pairs}) < len(pairs):
        seen = set()
        for name, _ in pairs:
            if name in seen:
                raise _Repeated(name)
            seen.add(name)


# Numbers may have millions of digits: their length takes the place of each.
_DECODER = json.JSONDecoder(object_pairs_hook=_see, parse_int=len, parse_float=len, parse_constant=len)


def check_keys(body: bytes) -> None:
    """Raises `BadKeys` if an object anywhere in the body has a key twice, or if it cannot be told: the body is nested
    too deeply or has too many values. What is no JSON passes: whoever reads it refuses it."""
    if body.count(b",") > _MOST_VALUES or body.count(b"[") > _MOST_LISTS:
        raise BadKeys("", f"has more than {_MOST_VALUES:,} values or {_MOST_LISTS:,} lists")
    try:
        # Bytes that are no text are refused by whoever reads them, with the field that they are in.
        _DECODER.decode(body.decode(errors="surrogateescape"))
    except _Repeated as error:
        name = str(error)[:_LONGEST_NAME].encode(errors="replace").decode()
        raise BadKeys(name, "is there more than once in one object") from error
    except RecursionError as error:
        raise BadKeys("", "is nested too deeply") from error
    except ValueError:
        return
