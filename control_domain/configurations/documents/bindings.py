"""Bindings: the values of the placeholders `${name}` in the texts of a configuration document.

Keys have no placeholders. `$${` is a literal `${`; any other `$` is literal. Values are not searched for placeholders.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from control_domain.documents.faults import DocumentFault, Fault, add_fault, format_path, quote
from control_domain.documents.strict_yaml import Node, Unreadable
from pipeline_contracts.errors import MAX_FIELD_ERRORS

MOST_BINDINGS = 1000
MOST_BYTES = 128 * 1024
"""Bytes of one value in UTF-8."""
MOST_BYTES_OF_ALL = 256 * 1024
MOST_CHARACTERS = 1_000_000
"""Characters of all texts with placeholders together: a short document may repeat a long value thousands of times."""

_NAME = "[A-Za-z_][A-Za-z0-9_]{0,99}"
_IS_NAME = re.compile(_NAME)
_MARK = re.compile(rf"\$\$\{{|\$\{{(?P<name>{_NAME})\}}|(?P<bad>\$\{{)")
_PLAIN = "${"

_NO_NAME = "a name has letters, digits and _, no digit first, and at most 100 characters"
_NO_BINDING = "contains a ${ that begins no binding: write a binding as ${name}, and a literal ${ as $${"
_UNUSED = "is not used in the document: remove it, or use it in a value; keys cannot contain bindings"
_TOO_LONG = f"with bindings, the texts up to here have more than {MOST_CHARACTERS:,} characters"


class BadBindings(Exception):
    """Bindings that are invalid, missing or unused: the name of each (empty: all bindings) and the reason, without
    values."""

    def __init__(self, faults: Sequence[tuple[str, str]]) -> None:
        self.faults = tuple(faults[:MAX_FIELD_ERRORS])
        super().__init__("; ".join(f"{name}: {reason}" if name else reason for name, reason in self.faults))


class Bindings:
    """The bindings of one document, and their faults."""

    def __init__(self, bindings: Mapping[str, Any]) -> None:
        """`bindings`: any JSON object."""
        self._bindings = bindings
        self._values: dict[str, str] = {}
        self._invalid: list[tuple[str, str]] = []
        self._used: Mapping[str, str] | None = None
        if len(bindings) > MOST_BINDINGS:
            self._invalid.append(("", f"are {len(bindings):,}: the limit is {MOST_BINDINGS:,}"))
            return
        for key, value in bindings.items():
            reason = _find_fault(key, value)
            if reason is None:
                self._values[key] = value
            else:
                self._invalid.append((key if _is_name(key) else quote(key), reason))
        if sum(len(value.encode()) for value in self._values.values()) > MOST_BYTES_OF_ALL:
            self._invalid.append(("", f"have more than {MOST_BYTES_OF_ALL:,} bytes together"))

    def substitute(self, root: Node, faults: list[Fault]) -> Node:
        """Return the document with the values in its texts; a text with a missing or invalid binding becomes
        `Unreadable`. Raises `DocumentFault` if the texts would be too long."""
        substitution = _Substitution(self._values, faults)
        substituted = substitution.substitute(root)
        self._used = substitution.used
        return substituted

    def find_faults(self) -> list[tuple[str, str]]:
        """Return the name of each invalid, missing or unused binding with the reason. Missing and unused ones are known
        only after `substitute`."""
        if self._used is None:
            return [*self._invalid]
        missing = [(key, reason) for key, reason in self._used.items() if key not in self._bindings]
        unused = [(key, _UNUSED) for key in self._values if key not in self._used]
        return [*self._invalid, *missing, *unused]

    def check(self) -> None:
        """Raise `BadBindings` if there are faults."""
        faults = self.find_faults()
        if faults:
            raise BadBindings(faults)


def has_binding(node: Node) -> bool:
    """True if any part of the node contains a binding's value."""
    value = node.value
    if isinstance(value, Mapping):
        return any(map(has_binding, value.values()))
    return node.bound or (isinstance(value, tuple) and any(map(has_binding, value)))


def _is_name(text: str) -> bool:
    return _IS_NAME.fullmatch(text) is not None


def _find_fault(key: str, value: Any) -> str | None:
    if not _is_name(key):
        return _NO_NAME
    if not isinstance(value, str):
        return "must be a text"
    if "\0" in value:
        return "contains NUL, which is not allowed"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return "contains half a surrogate pair, which UTF-8 cannot encode"
    return f"has more than {MOST_BYTES:,} bytes" if size > MOST_BYTES else None


@dataclass(frozen=True, slots=True)
class _SubstitutedText:
    """A text with its values; `text` is None if a value is missing or a placeholder malformed."""

    text: str | None = None
    bound: bool = False
    is_malformed: bool = False


class _Substitution:
    """A walk through the nodes of a document."""

    def __init__(self, values: Mapping[str, str], faults: list[Fault]) -> None:
        self.used: dict[str, str] = {}
        """The bindings that the document uses, each with the message in case it is missing."""
        self._values = values
        self._faults = faults
        self._total_characters = 0
        # Aliases repeat texts: each text is searched once.
        self._cache: dict[str, _SubstitutedText] = {}
        self._keys: list[str | int] = []

    def substitute(self, node: Node) -> Node:
        """Return the node with values in its texts, or the same node if nothing in it changes. Recursive; the depth of
        documents is limited."""
        value = node.value
        if isinstance(value, str):
            return self._substitute_text(node, value) if _PLAIN in value else node
        if isinstance(value, Mapping):
            members = {key: self._substitute_below(key, member) for key, member in value.items()}
            changed = any(member is not value[key] for key, member in members.items())
            return Node(members, node.line) if changed else node
        if isinstance(value, tuple):
            items = tuple(self._substitute_below(index, item) for index, item in enumerate(value))
            changed = any(item is not old for item, old in zip(items, value, strict=True))
            return Node(items, node.line) if changed else node
        return node

    def _substitute_below(self, key: str | int, node: Node) -> Node:
        self._keys.append(key)
        substituted = self.substitute(node)
        self._keys.pop()
        return substituted

    def _substitute_text(self, node: Node, text: str) -> Node:
        substituted = self._cache.get(text)
        if substituted is None:
            substituted = self._cache[text] = self._build_text(text, node.line)
        else:
            self._count(len(substituted.text or ""), node.line)
        if substituted.is_malformed:
            add_fault(self._faults, Fault(format_path(self._keys), node.line, _NO_BINDING))
        if substituted.text is None:
            return Node(Unreadable.VALUE, node.line)
        return Node(substituted.text, node.line, substituted.bound)

    def _build_text(self, text: str, line: int) -> _SubstitutedText:
        marks = [*_MARK.finditer(text)]
        used = dict.fromkeys(key for mark in marks if (key := mark["name"]))
        path = format_path(self._keys)
        missing = f"is missing: line {line} uses it{f', at {path}' if path else ''}"
        for key in used:
            self.used.setdefault(key, missing)
        if any(mark["bad"] for mark in marks):
            return _SubstitutedText(is_malformed=True)
        if any(key not in self._values for key in used):
            return _SubstitutedText()
        self._count(len(text) + sum(len(self._replace(mark)) - len(mark[0]) for mark in marks), line)
        return _SubstitutedText(_MARK.sub(self._replace, text), bound=bool(used))

    def _count(self, length: int, line: int) -> None:
        """Count a text before it is built."""
        self._total_characters += length
        if self._total_characters > MOST_CHARACTERS:
            raise DocumentFault([*self._faults, Fault(format_path(self._keys), line, _TOO_LONG)])

    def _replace(self, mark: "re.Match[str]") -> str:
        key = mark["name"]
        return self._values[key] if key else _PLAIN
