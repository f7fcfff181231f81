"""Scalars of YAML 1.2's core schema (https://yaml.org/spec/1.2.2/, section 10.3).

Not those of YAML 1.1, which PyYAML knows: `yes`, `on`, `3:30`, `1_000` and `2026-01-01` are text here, `017` is 17 and
`0o17` is 15.
"""

import re
from collections.abc import Callable, Mapping

Scalar = str | int | float | bool | None

_PREFIX = "tag:yaml.org,2002:"
_NULL = re.compile(r"null|Null|NULL|~|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
# What is not text begins with one of them.
_BEGINNINGS = frozenset("~nNtTfF+-.0123456789")
# Longer ones are beyond 64 bits in every base, but for zeros in front.
_LONGEST_INT = 70
_BASES = {"0o": 8, "0x": 16}


class BadScalar(Exception):
    """The message says what is wrong with the value."""


def read_scalar(text: str, tag: str | None, plain: bool) -> Scalar:
    """The value of a scalar: `tag` is the resolved one or None; `plain`: without quotes, and not a block.

    Raises `BadScalar` for other tags than those of the core schema, values that are not of their tag, and whole numbers
    that 64 bits do not hold.
    """
    if tag is None:
        return _resolve(text) if plain else text
    kind = tag.removeprefix(_PREFIX) if tag.startswith(_PREFIX) else ""
    if kind == "str":
        return text
    if kind not in _READERS:
        raise BadScalar(refuse_tag(tag))
    pattern, read = _READERS[kind]
    if pattern.fullmatch(text) is None:
        raise BadScalar(f"is tagged !!{kind} but is none")
    return read(text)


def refuse_tag(tag: str) -> str:
    """Why this tag is not taken."""
    told = f"!!{tag.removeprefix(_PREFIX)}" if tag.startswith(_PREFIX) else tag
    return f"has the tag {told[:60]!r}: only those of YAML's core schema are taken; leave it out"


def is_core_tag(tag: str | None, kind: str) -> bool:
    """Whether a collection may have it: none, or the one of its kind (`map`, `seq`)."""
    return tag is None or tag == f"{_PREFIX}{kind}"


def _resolve(text: str) -> Scalar:
    if text and text[0] not in _BEGINNINGS:
        return text
    for pattern, read in _READERS.values():
        if pattern.fullmatch(text):
            return read(text)
    return text


def _read_int(text: str) -> int:
    # Python refuses thousands of digits with an error of its own.
    value = None if len(text) > _LONGEST_INT else int(text.removeprefix("0o").removeprefix("0x"), _base(text))
    if value is None or not -(2**63) <= value < 2**63:
        raise BadScalar("is a whole number that 64 bits do not hold: write it in quotes")
    return value


def _base(text: str) -> int:
    return _BASES.get(text[:2], 10)


def _read_float(text: str) -> float:
    # Python has no dot before inf and nan.
    return float(re.sub(r"\.(?=[a-zA-Z])", "", text, count=1) if text[-1].isalpha() else text)


# In this order: a whole number looks like a float as well.
_READERS: Mapping[str, tuple["re.Pattern[str]", Callable[[str], Scalar]]] = {
    "null": (_NULL, lambda text: None),
    "bool": (_BOOL, lambda text: text[0] in "tT"),
    "int": (_INT, _read_int),
    "float": (_FLOAT, _read_float),
}
