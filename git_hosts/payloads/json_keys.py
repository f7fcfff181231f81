"""Refuses JSON bodies with duplicate keys: another program may have read the other value."""

import json
from typing import Any

_MAX_VALUES = 250_000
_MAX_LISTS = 100_000
"""Bodies with more are refused before parsing: a parsed list takes 50 times its two bytes."""
_MAX_REPORTED_KEY_LENGTH = 100


class BadKeys(ValueError):
    """`field` is the duplicate key, or empty if the body cannot be checked."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class _DuplicateKey(Exception):
    pass


def _check_object(pairs: list[tuple[str, Any]]) -> None:
    """Raise `_DuplicateKey` for a repeated key. Returns nothing, so that parsed objects take no memory."""
    if len(pairs) > 1 and len({name for name, _ in pairs}) < len(pairs):
        seen = set()
        for name, _ in pairs:
            if name in seen:
                raise _DuplicateKey(name)
            seen.add(name)


# Numbers may have millions of digits: replace each with its length instead of converting it.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_check_object, parse_int=len, parse_float=len, parse_constant=len
)


def check_keys(body: bytes) -> None:
    """Raise `BadKeys` if any object in the body has a duplicate key, or if the body is nested too deeply or has too
    many values to be checked. A body that is not JSON passes: its decoder refuses it."""
    if body.count(b",") > _MAX_VALUES or body.count(b"[") > _MAX_LISTS:
        raise BadKeys("", f"has more than {_MAX_VALUES:,} values or {_MAX_LISTS:,} lists")
    try:
        # The decoder refuses bytes that are not text, and names their field.
        _DECODER.decode(body.decode(errors="surrogateescape"))
    except _DuplicateKey as error:
        name = str(error)[:_MAX_REPORTED_KEY_LENGTH].encode(errors="replace").decode()
        raise BadKeys(name, "is there more than once in one object") from error
    except RecursionError as error:
        raise BadKeys("", "is nested too deeply") from error
    except ValueError:
        return
