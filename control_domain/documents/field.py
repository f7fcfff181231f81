"""A value of a document, with its place, read as what it has to be. For documents of any kind."""

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from control_domain.documents.faults import MOST_FAULTS, Fault, add_fault, join_path
from control_domain.documents.strict_yaml import Node, Unread
from control_domain.refusals import Refused
from control_domain.slugs import LONGEST_SLUG, read_slug

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
    """Each method gives what it reads, or None once it has said in `faults` what is wrong. Raises `DocumentFault` where
    very much is."""

    node: Node
    path: str
    faults: list[Fault]

    def refuse(self, message: str) -> None:
        """Say what is wrong with it."""
        add_fault(self.faults, Fault(self.path, self.node.line, message))

    @property
    def is_nothing(self) -> bool:
        """Whether it is null, which a key without a value is as well."""
        return self.node.value is None

    def is_version(self, version: int, kind: str) -> bool:
        """Whether it is the only version that documents of this kind have."""
        value = self.node.value
        # True is 1 to Python.
        if type(value) is int and value == version:
            return True
        if not isinstance(value, Unread):
            self.refuse(f"must be {version}: a {kind} document has no other version")
        return False

    def members(self, *, or_nothing: bool = False) -> "Mapping[str, Field] | None":
        """Those of a mapping whose keys are names that the document gives. `or_nothing`: null has none."""
        if or_nothing and self.is_nothing:
            return {}
        if not isinstance(self.node.value, Mapping):
            self._refuse_kind("a mapping")
            return None
        return {
            key: Field(node, join_path(self.path, key), self.faults) for key, node in self.node.value.items()
        }

    def known_members(
        self, known: Collection[str], needed: Collection[str] = (), *, or_nothing: bool = False
    ) -> "Mapping[str, Field] | None":
        """Those of a mapping that has these keys and no others. `or_nothing`: null has none."""
        members = self.members(or_nothing=or_nothing)
        if members is None:
            return None
        # A fault more than are listed need not be worded, which takes a while.
        for key in islice((key for key in members if key not in known), MOST_FAULTS):
            members[key].refuse(_told_unknown(key, known))
        for key in needed:
            if key not in members:
                add_fault(self.faults, Fault(join_path(self.path, key), self.node.line, "is missing"))
        return {key: field for key, field in members.items() if key in known}

    def items(self, most: int, *, least: int = 0, or_nothing: bool = False) -> "Sequence[Field] | None":
        """Those of a list. `or_nothing`: null has none."""
        if or_nothing and self.is_nothing:
            return []
        if not isinstance(self.node.value, tuple):
            self._refuse_kind("a list")
            return None
        if len(self.node.value) > most:
            self.refuse(f"has {len(self.node.value):,} items: {most:,} are the most")
            return None
        if len(self.node.value) < least:
            self.refuse(f"has {len(self.node.value)} items: {least} is the least")
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
                if self.node.bound:
                    told = "a line break or another control character"
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

    def slug(self) -> str | None:
        """The slug of an environment."""
        slug = self.text(LONGEST_SLUG)
        if slug is None or is_slug(slug):
            return slug
        self.refuse("must be the slug of an environment: a-z, 0-9 and single hyphens, with a letter")
        return None

    def truth(self) -> bool | None:
        """True or false."""
        if not isinstance(self.node.value, bool):
            self._refuse_kind("true or false")
            return None
        return self.node.value

    def whole(self, least: int = -(2**63), most: int = 2**63 - 1) -> int | None:
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
        advice = ": write it in quotes" if wanted == "text" and not isinstance(value, Mapping) else ""
        if self.node.bound:
            advice = ", which is all that a binding can give"
        self.refuse(f"must be {wanted}, not {_KINDS[type(value)]}{advice}")


def is_slug(text: str) -> bool:
    """Whether an environment may have this slug."""
    try:
        return read_slug({"slug": text}, text) == text
    except Refused:
        return False


def _told_unknown(key: str, known: Collection[str]) -> str:
    nearest = difflib.get_close_matches(key, known, n=1)
    if nearest:
        return f"unknown; do you mean {nearest[0]}?"
    return f"unknown; known are {', '.join(known)}"
