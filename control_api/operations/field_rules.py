"""Describes the rule of a field of a body or a query in words, from its type."""

from collections.abc import Sequence
from typing import Any

from msgspec import inspect


def describe_rule(type_: Any) -> str:
    """Return the rule of a field, such as "must be a whole number from 1 to 20".

    A type whose constraints do not express the whole rule has it in `Meta(extra={"rule": "must be …"})`.
    """
    return _describe(inspect.type_info(type_))


def describe_item_rule(type_: Any) -> str | None:
    """Return the rule of the items of a list; None for another type."""
    info = _unwrap(inspect.type_info(type_))
    types = info.types if isinstance(info, inspect.UnionType) else (info,)
    for each in map(_unwrap, types):
        if isinstance(each, inspect.ListType):
            return _describe(each.item_type)
    return None


def allows_null(type_: Any) -> bool:
    """Return True if the field may be `null`, and null differs from leaving the field out."""
    info = _unwrap(inspect.type_info(type_))
    return isinstance(info, inspect.UnionType) and info.includes_none


def is_time(type_: Any) -> bool:
    """Return True if the field is a time, which may be null."""
    info = _unwrap(inspect.type_info(type_))
    types = info.types if isinstance(info, inspect.UnionType) else (info,)
    return any(isinstance(_unwrap(each), inspect.DateTimeType) for each in types)


def _unwrap(info: inspect.Type) -> inspect.Type:
    return _unwrap(info.type) if isinstance(info, inspect.Metadata) else info


def _describe(info: inspect.Type) -> str:
    match info:
        case inspect.Metadata(type=inner, extra=extra):
            return str(extra["rule"]) if extra and "rule" in extra else _describe(inner)
        case inspect.UnionType(types=types):
            rules = [_describe(each).removeprefix("must be ") for each in types if not _is_left_out(each)]
            return f"must be {' or '.join(rules)}"
        case inspect.NoneType():
            return "must be null"
        case inspect.StrType(min_length=least, max_length=most):
            return f"must be {_with_length('a string', least, most, 'characters')}"
        case inspect.IntType(ge=least, le=most):
            return f"must be a whole number{_with_range(least, most)}"
        case inspect.FloatType(ge=least, le=most):
            return f"must be a number{_with_range(least, most)}"
        case inspect.BoolType():
            return "must be true or false"
        case inspect.DateTimeType():
            return "must be a time like 2026-11-26T03:10:00Z"
        case inspect.UUIDType():
            return "must be a UUID"
        case inspect.EnumType(cls=enum):
            return f"must be {join_or([str(member.value) for member in enum])}"
        case inspect.LiteralType(values=values):
            return f"must be {join_or([str(value) for value in values])}"
        case inspect.ListType(item_type=item, min_length=least, max_length=most):
            rule = _describe(item).removeprefix("must be ")
            return f"must be {_with_length('a list', least, most, 'items')}, each {rule}"
        case inspect.DictType(max_length=most):
            return f"must be {_with_length('an object', None, most, 'members')}"
    return "must be an object"


def _is_left_out(info: inspect.Type) -> bool:
    return type(info).__name__ == "UnsetType"


def _with_length(what: str, least: int | None, most: int | None, unit: str) -> str:
    if most is None:
        return f"{what} of at least {least} {unit}" if least else what
    return f"{what} of {least} to {most:,} {unit}" if least else f"{what} of at most {most:,} {unit}"


def _with_range(least: float | None, most: float | None) -> str:
    if most is None:
        return "" if least is None else f" of at least {least:,}"
    return f" of at most {most:,}" if least is None else f" from {least:,} to {most:,}"


def join_or(words: Sequence[str]) -> str:
    """Return "a, b or c"."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last
