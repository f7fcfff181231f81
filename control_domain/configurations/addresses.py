"""Addresses of resources and their members: `environments.production`, `sites["shop.example"].goals.Signup`.

A part follows a dot if it is a plain name; otherwise it is a JSON string in brackets.
"""

import json
import re
from typing import Literal

Address = tuple[str, ...]
"""The parts of an address."""
Kind = Literal["project", "environment", "heartbeat", "queue", "threshold", "site", "rule"]

PROJECT: Address = ("project",)
VARIABLES = "variables"
GOALS = "goals"
THRESHOLDS = "thresholds"
NOTIFICATIONS = "notifications"
RULES: Address = (NOTIFICATIONS, "rules")
"""The address of a rule is this prefix and the rule's name."""

_PLAIN = re.compile("[A-Za-z0-9_][A-Za-z0-9_-]*")
_PART = re.compile(r'\.?([A-Za-z0-9_][A-Za-z0-9_-]*)|\[("(?:[^"\\]|\\.)*")\]')
_KINDS: dict[tuple[str, ...], Kind] = {
    ("project",): "project",
    ("environments", "*"): "environment",
    ("environments", "*", "heartbeats", "*"): "heartbeat",
    ("environments", "*", "queues", "*"): "queue",
    ("environments", "*", THRESHOLDS, "*"): "threshold",
    ("sites", "*"): "site",
    (*RULES, "*"): "rule",
}
_MEMBERS = {"environment": VARIABLES, "site": GOALS}


class BadAddress(ValueError):
    """A text that is not an address; the message gives examples."""


def write_address(address: Address) -> str:
    """Return the address as text, which `read_address` reads."""
    text = "".join(
        f".{part}" if _PLAIN.fullmatch(part) else f"[{json.dumps(part, ensure_ascii=False)}]"
        for part in address
    )
    return text.removeprefix(".")


def read_address(text: str) -> Address:
    """Return the address of a resource, variable or goal that the text contains. Raises `BadAddress`."""
    parts: list[str] = []
    position = 0
    while position < len(text):
        found = _PART.match(text, position)
        # A dot is allowed only between two parts.
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
        "is not an address like environments.staging, environments.production.heartbeats.nightly or "
        'sites["shop.example"].goals.Signup'
    )


def find_kind(address: Address) -> Kind | None:
    """Return the kind of resource at the address; None if it is not a resource's address."""
    first = _first_name(address)
    shape = tuple(
        "*" if index >= first and (index - first) % 2 == 0 else part for index, part in enumerate(address)
    )
    return _KINDS.get(shape)


def find_names(address: Address) -> Address:
    """Return the parts of an address that people chose: `("production", "nightly")`."""
    return address[_first_name(address) :: 2]


def find_parent(address: Address) -> Address | None:
    """Return the environment of a monitor or threshold; None for a resource of the project itself."""
    return address[:-2] if find_kind(address[:-2]) else None


def _first_name(address: Address) -> int:
    """Return the position of the first name; every second part from there on is a name."""
    return len(RULES) if address[:1] == (NOTIFICATIONS,) else 1


def split_member(address: Address) -> tuple[Address, str] | None:
    """Return a variable's environment or a goal's site, and the field's name there; None for other addresses."""
    resource, member = address[:2], address[2:]
    kind = find_kind(resource)
    if kind is None or len(member) != 2 or member[0] != _MEMBERS.get(kind):
        return None
    return resource, write_address(member)
