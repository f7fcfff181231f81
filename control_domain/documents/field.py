"""Checked values of a document of any kind, with their places."""

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from control_domain.documents.faults import (
    MAX_FAULTS,
    Fault,
    Places,
    add_fault,
    format_path,
)
from control_domain.documents.strict_yaml import Node, Unreadable
from control_domain.slugs import MAX_SLUG_LENGTH, is_slug

# Escapes can produce these. PyYAML without libyaml accepts half a surrogate pair, which UTF-8 cannot encode.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_KINDS = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    type(None): "nothing",
    tuple: "a list",
    dict: "a mapping",
}


@dataclass(frozen=True, slots=True)
class Field:
    """A value of a document. Methods that read it add a fault to `faults` and return None if the value is wrong. All
    methods raise `DocumentFault` at the 100th fault."""

    node: Node
    faults: list[Fault]
    places: Places = ()

    def refuse(self, message: str) -> None:
        """Add a fault of this value."""
        add_fault(self.faults, Fault(format_path(self.places), self.node.line, message))

    @property
    def is_null(self) -> bool:
        """True for null, and for a key without a value."""
        return self.node.value is None

    def is_version(self, version: int, kind: str) -> bool:
        """True for the only version that documents of this kind have; else a fault is added."""
        value = self.node.value
        # True is 1 to Python.
        if type(value) is int and value == version:
            return True
        if not isinstance(value, Unreadable):
            self.refuse(f"must be {version}: a {kind} document has no other version")
        return False

    def members(self, *, allow_null: bool = False) -> "Mapping[str, Field] | None":
        """Return the members of a mapping with any keys. `allow_null`: null has none."""
        if allow_null and self.is_null:
            return {}
        if not isinstance(self.node.value, Mapping):
            self._refuse_kind("a mapping")
            return None
        return {key: self._below(key, node) for key, node in self.node.value.items()}

    def known_members(
        self, known: Collection[str], needed: Collection[str] = (), *, allow_null: bool = False
    ) -> "Mapping[str, Field] | None":
        """Return the members whose keys are `known`; each other key, and each of `needed` that is missing, is a fault.
        `allow_null`: null has no members."""
        members = self.members(allow_null=allow_null)
        if members is None:
            return None
        # Finding the nearest key is slow, so it is done only for faults that are reported.
        for key in islice((key for key in members if key not in known), MAX_FAULTS):
            members[key].refuse(_describe_unknown(key, known))
        for key in needed:
            if key not in members:
                self._below(key, self.node).refuse("is missing")
        return {key: field for key, field in members.items() if key in known}

    def items(self, most: int, *, least: int = 0, allow_null: bool = False) -> "Sequence[Field] | None":
        """Return the items of a list. `allow_null`: null has none."""
        if allow_null and self.is_null:
            return []
        if not isinstance(self.node.value, tuple):
            self._refuse_kind("a list")
            return None
        if len(self.node.value) > most:
            self.refuse(f"has {len(self.node.value):,} items: the limit is {most:,}")
            return None
        if len(self.node.value) < least:
            self.refuse(f"has {len(self.node.value)} items: {least} is the least")
            return None
        return [self._below(index, node) for index, node in enumerate(self.node.value)]

    def _below(self, place: str | int, node: Node) -> "Field":
        return Field(node, self.faults, (*self.places, place))

    def text(self, most: int, *, allowed: str = "") -> str | None:
        """Return a text of 1 to `most` characters without control characters, except those in `allowed`."""
        value = self.node.value
        if not isinstance(value, str):
            self._refuse_kind("text")
            return None
        if not 1 <= len(value) <= most:
            self.refuse(f"has {len(value):,} characters: 1 to {most:,} are allowed")
            return None
        for control in _CONTROL.finditer(value):
            if control[0] not in allowed:
                found = "a line break" if control[0] in "\n\r" else f"the character U+{ord(control[0]):04X}"
                if self.node.bound:
                    found = "a line break or another control character"
                self.refuse(f"holds {found}, which is not allowed here")
                return None
        return value

    def choice(self, choices: Sequence[str]) -> str | None:
        """Return a text that is one of these."""
        value = self.node.value
        if isinstance(value, str) and value in choices:
            return value
        if not isinstance(value, Unreadable):
            self.refuse(f"must be {' or '.join(choices)}")
        return None

    def slug(self) -> str | None:
        """Return the slug of an environment."""
        slug = self.text(MAX_SLUG_LENGTH)
        if slug is None or is_slug(slug):
            return slug
        self.refuse("must be the slug of an environment: a-z, 0-9 and single hyphens, with a letter")
        return None

    def boolean(self) -> bool | None:
        """Return true or false."""
        if not isinstance(self.node.value, bool):
            self._refuse_kind("true or false")
            return None
        return self.node.value

    def integer(self, least: int = -(2**63), most: int = 2**63 - 1) -> int | None:
        """Return a whole number from `least` to `most`."""
        value = self.node.value
        # True is an int to Python.
        if not isinstance(value, int) or isinstance(value, bool):
            self._refuse_kind("a whole number")
            return None
        if not least <= value <= most:
            self.refuse(f"must be {least:,} to {most:,}")
            return None
        return value

    def number(self, least: float, most: float) -> int | float | None:
        """Return a number from `least` to `most`, which may have a fraction."""
        value = self.node.value
        if not isinstance(value, int | float) or isinstance(value, bool):
            self._refuse_kind("a number")
            return None
        # Also false for `.nan`.
        if not least <= value <= most:
            self.refuse(f"must be {least:,} to {most:,}")
            return None
        return value

    def _refuse_kind(self, expected: str) -> None:
        value = self.node.value
        if isinstance(value, Unreadable):
            return
        advice = ": write it in quotes" if expected == "text" and not isinstance(value, Mapping) else ""
        if self.node.bound:
            advice = ": a binding can only give text"
        self.refuse(f"must be {expected}, not {_KINDS[type(value)]}{advice}")


def _describe_unknown(key: str, known: Collection[str]) -> str:
    nearest = difflib.get_close_matches(key, known, n=1)
    if nearest:
        return f"unknown; do you mean {nearest[0]}?"
    return f"unknown; known are {', '.join(known)}"
