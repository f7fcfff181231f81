"""Scalars of YAML 1.2's core schema (https://yaml.org/spec/1.2.2/, section 10.3).

PyYAML reads YAML 1.1 instead. In YAML 1.2 `yes`, `on`, `3:30`, `1_000` and `2026-01-01` are text, `017` is 17 and
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
# A plain scalar that is not text begins with one of these characters.
_FIRST_CHARACTERS = frozenset("~nNtTfF+-.0123456789")
# Longer numbers are beyond 64 bits in every base, except with leading zeros.
_MAX_DIGITS = 70
_BASES = {"0o": 8, "0x": 16}


class BadScalar(Exception):
    """The message says what is wrong with the value."""


def read_scalar(text: str, tag: str | None, plain: bool) -> Scalar:
    """Return the value of a scalar. `tag`: the resolved tag or None; `plain`: neither quoted nor a block.

    Raises `BadScalar` for tags outside the core schema, values that do not match their tag, and whole numbers of more
    than 64 bits.
    """
    if tag is None:
        return _resolve(text) if plain else text
    kind = tag.removeprefix(_PREFIX) if tag.startswith(_PREFIX) else ""
    if kind == "str":
        return text
    if kind not in _READERS:
        raise BadScalar(describe_bad_tag(tag))
    pattern, read = _READERS[kind]
    if pattern.fullmatch(text) is None:
        raise BadScalar(f"has the tag !!{kind} but is none")
    return read(text)


def describe_bad_tag(tag: str) -> str:
    """Return why this tag is refused."""
    shown = f"!!{tag.removeprefix(_PREFIX)}" if tag.startswith(_PREFIX) else tag
    return f"has the tag {shown[:60]!r}: only tags of YAML's core schema are allowed; remove it"


def is_core_tag(tag: str | None, kind: str) -> bool:
    """True if a collection of this kind (`map`, `seq`) may have the tag: no tag, or the tag of the kind."""
    return tag is None or tag == f"{_PREFIX}{kind}"


def _resolve(text: str) -> Scalar:
    if text and text[0] not in _FIRST_CHARACTERS:
        return text
    for pattern, read in _READERS.values():
        if pattern.fullmatch(text):
            return read(text)
    return text


def _read_int(text: str) -> int:
    # Python refuses thousands of digits with an error of its own.
    value = (
        None
        if len(text) > _MAX_DIGITS
        else int(text.removeprefix("0o").removeprefix("0x"), _BASES.get(text[:2], 10))
    )
    if value is None or not -(2**63) <= value < 2**63:
        raise BadScalar("is a whole number that does not fit into 64 bits: write it in quotes")
    return value


def _read_float(text: str) -> float:
    # Python writes inf and nan without a dot.
    return float(re.sub(r"\.(?=[a-zA-Z])", "", text, count=1) if text[-1].isalpha() else text)


# In this order: a whole number matches the pattern of floats as well.
_READERS: Mapping[str, tuple["re.Pattern[str]", Callable[[str], Scalar]]] = {
    "null": (_NULL, lambda text: None),
    "bool": (_BOOL, lambda text: text[0] in "tT"),
    "int": (_INT, _read_int),
    "float": (_FLOAT, _read_float),
}
