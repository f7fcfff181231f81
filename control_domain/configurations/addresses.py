"""Addresses of what a configuration document is about: `environments.production`, `sites["shop.example"].goals.Signup`.

A part stands behind a dot where it is plain, else as a JSON string in brackets.
"""

import json
import re
from typing import Literal

Address = tuple[str, ...]
"""Its parts."""
Kind = Literal["project", "environment", "heartbeat", "queue", "site"]

PROJECT: Address = ("project",)
VARIABLES = "variables"
GOALS = "goals"

_PLAIN = re.compile("[A-Za-z0-9_][A-Za-z0-9_-]*")
_PART = re.compile(r'\.?([A-Za-z0-9_][A-Za-z0-9_-]*)|\[("(?:[^"\\]|\\.)*")\]')
_KINDS: dict[tuple[str, ...], Kind] = {
    ("project",): "project",
    ("environments", "*"): "environment",
    ("environments", "*", "heartbeats", "*"): "heartbeat",
    ("environments", "*", "queues", "*"): "queue",
    ("sites", "*"): "site",
}
_MEMBERS = {"environment": VARIABLES, "site": GOALS}


class BadAddress(ValueError):
    """What is no address; the message says what one looks like."""


def write_address(address: Address) -> str:
    """The address as text; `read_address` gives it back."""
    told = "".join(
        f".{part}" if _PLAIN.fullmatch(part) else f"[{json.dumps(part, ensure_ascii=False)}]"
        for part in address
    )
    return told.removeprefix(".")


def read_address(text: str) -> Address:
    """The address that this is, of a resource or of a member of one. Raises `BadAddress`."""
    parts: list[str] = []
    position = 0
    while position < len(text):
        found = _PART.match(text, position)
        # A dot stands between parts, and only there.
        if found is None or (found[1] is not None and text[position].startswith(".") == (position == 0)):
            raise _bad()
        try:
            parts.append(found[1] if found[1] is not None else json.loads(found[2]))
        except ValueError:
            raise _bad() from None
        position = found.end()
    address = tuple(parts)
    if find_kind(address) is None and split_member(address) is None:
        raise _bad()
    return address


def _bad() -> BadAddress:
    return BadAddress(
        "is no address: one is environments.staging, environments.production.heartbeats.nightly or "
        'sites["shop.example"].goals.Signup'
    )


def find_kind(address: Address) -> Kind | None:
    """What kind of resource has such an address; None where no resource has."""
    # Every other part is a name.
    shape = tuple("*" if index % 2 else part for index, part in enumerate(address))
    return _KINDS.get(shape)


def split_member(address: Address) -> tuple[Address, str] | None:
    """The resource that a variable or a goal is of, and its field there; None for other addresses."""
    resource, member = address[:2], address[2:]
    kind = find_kind(resource)
    if kind is None or len(member) != 2 or member[0] != _MEMBERS.get(kind):
        return None
    return resource, write_address(member)
