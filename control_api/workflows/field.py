"""A value of a document, with its place, read as what it has to be. For documents of any kind."""

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from control_api.workflows.faults import MOST_FAULTS, Fault, join_path
from control_api.workflows.strict_yaml import Node, Unread

# Escapes can make them. Half a surrogate pair, which PyYAML without libyaml takes, is no text in UTF-8.
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
    """Each method gives what it reads, or None once it has said in `faults` what is wrong."""

    node: Node
    path: str
    faults: list[Fault]

    def refuse(self, message: str) -> None:
        """Say what is wrong with it."""
        self.faults.append(Fault(self.path, self.node.line, message))

    def members(self) -> "Mapping[str, Field] | None":
        """Those of a mapping whose keys are names that the document gives."""
        if not isinstance(self.node.value, Mapping):
            self._refuse_kind("a mapping")
            return None
        return {
            key: Field(node, join_path(self.path, key), self.faults) for key, node in self.node.value.items()
        }

    def known_members(
        self, known: Collection[str], needed: Collection[str] = ()
    ) -> "Mapping[str, Field] | None":
        """Those of a mapping that has these keys and no others."""
        members = self.members()
        if members is None:
            return None
        # A fault more than are listed need not be worded, which takes a while.
        for key in islice((key for key in members if key not in known), MOST_FAULTS):
            members[key].refuse(_told_unknown(key, known))
        for key in needed:
            if key not in members:
                self.faults.append(Fault(join_path(self.path, key), self.node.line, "is missing"))
        return {key: field for key, field in members.items() if key in known}

    def items(self, most: int) -> "Sequence[Field] | None":
        """Those of a list."""
        if not isinstance(self.node.value, tuple):
            self._refuse_kind("a list")
            return None
        if len(self.node.value) > most:
            self.refuse(f"has {len(self.node.value):,} items: {most} are the most")
            return None
        return [
            Field(node, f"{self.path}[{number}]", self.faults) for number, node in enumerate(self.node.value)
        ]

    def text(self, most: int, *, allowed: str = "") -> str | None:
        """A text of 1 to `most` characters, of control characters only those that are `allowed`."""
        value = self.node.value
        if not isinstance(value, str):
            self._refuse_kind("text")
            return None
        if not 1 <= len(value) <= most:
            self.refuse(f"has {len(value):,} characters: 1 to {most:,} are taken")
            return None
        for control in _CONTROL.finditer(value):
            if control[0] not in allowed:
                told = "a line break" if control[0] in "\n\r" else f"the character U+{ord(control[0]):04X}"
                self.refuse(f"holds {told}, which is not taken here")
                return None
        return value

    def choice(self, choices: Sequence[str]) -> str | None:
        """One of these texts."""
        value = self.node.value
        if isinstance(value, str) and value in choices:
            return value
        if not isinstance(value, Unread):
            self.refuse(f"must be {' or '.join(choices)}")
        return None

    def whole(self, least: int, most: int) -> int | None:
        """A whole number."""
        value = self.node.value
        # True is an int to Python.
        if not isinstance(value, int) or isinstance(value, bool):
            self._refuse_kind("a whole number")
            return None
        if not least <= value <= most:
            self.refuse(f"must be {least:,} to {most:,}")
            return None
        return value

    def _refuse_kind(self, wanted: str) -> None:
        value = self.node.value
        if isinstance(value, Unread):
            return
        quotes = ": write it in quotes" if wanted == "text" and not isinstance(value, Mapping) else ""
        self.refuse(f"must be {wanted}, not {_KINDS[type(value)]}{quotes}")


def _told_unknown(key: str, known: Collection[str]) -> str:
    nearest = difflib.get_close_matches(key, known, n=1)
    if nearest:
        return f"unknown; do you mean {nearest[0]}?"
    return f"unknown; known are {', '.join(known)}"
