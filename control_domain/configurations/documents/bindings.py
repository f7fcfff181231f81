"""Bindings: the values that `${name}`s in the texts of a configuration document stand for.

Keys have none. `$${` is a plain `${`; any other `$` is what it is. What a binding gives is not looked through again.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from control_domain.documents.faults import (
    DocumentFault,
    Fault,
    add_fault,
    format_path,
    quote,
)
from control_domain.documents.strict_yaml import Node, Unreadable
from pipeline_contracts.errors import MAX_FIELD_ERRORS

MOST_BINDINGS = 1000
MOST_BYTES = 128 * 1024
"""Of one, in UTF-8."""
MOST_BYTES_OF_ALL = 256 * 1024
MOST_CHARACTERS = 1_000_000
"""Of all texts together that bindings are put into: a short document may name a long one thousands of times."""

_NAME = "[A-Za-z_][A-Za-z0-9_]{0,99}"
_IS_NAME = re.compile(_NAME)
_MARK = re.compile(rf"\$\$\{{|\$\{{(?P<name>{_NAME})\}}|(?P<bad>\$\{{)")
_PLAIN = "${"

_NO_NAME = "a name has letters, digits and _, no digit first, and at most 100 characters"
_NO_BINDING = "holds a ${ that begins no binding: a binding is like ${name}, and a plain ${ is written $${"
_UNUSED = "is used nowhere in the document: take it away, or name it in a value; keys have no bindings"
_TOO_LONG = f"with bindings, the texts up to here have more than {MOST_CHARACTERS:,} characters"


class BadBindings(Exception):
    """Bindings that are wrong, missing or unused: the name of each (empty: all of them), and why; no values."""

    def __init__(self, faults: Sequence[tuple[str, str]]) -> None:
        self.faults = tuple(faults[:MAX_FIELD_ERRORS])
        super().__init__("; ".join(f"{name}: {why}" if name else why for name, why in self.faults))


class Bindings:
    """The bindings of one document, and what is wrong with them."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        """Of a JSON object of any kind."""
        self._given = given
        self._values: dict[str, str] = {}
        self._wrong: list[tuple[str, str]] = []
        self._asked: Mapping[str, str] | None = None
        if len(given) > MOST_BINDINGS:
            self._wrong.append(("", f"are {len(given):,}: {MOST_BINDINGS:,} are the most"))
            return
        for called, value in given.items():
            why = _find_fault(called, value)
            if why is None:
                self._values[called] = value
            else:
                self._wrong.append((called if _is_name(called) else quote(called), why))
        if sum(len(value.encode()) for value in self._values.values()) > MOST_BYTES_OF_ALL:
            self._wrong.append(("", f"have more than {MOST_BYTES_OF_ALL:,} bytes together"))

    def put_into(self, root: Node, faults: list[Fault]) -> Node:
        """The document with the values in its texts; a text whose binding is missing or wrong is `Unreadable`. Raises
        `DocumentFault` where the texts would be too long."""
        putting = _Putting(self._values, faults)
        put = putting.put(root)
        self._asked = putting.asked
        return put

    def find_faults(self) -> list[tuple[str, str]]:
        """The name of each binding that is wrong, missing or unused, and why. Which are missing and unused is known
        once they were put into the document."""
        if self._asked is None:
            return [*self._wrong]
        missing = [(called, where) for called, where in self._asked.items() if called not in self._given]
        unused = [(called, _UNUSED) for called in self._values if called not in self._asked]
        return [*self._wrong, *missing, *unused]

    def check(self) -> None:
        """Raises `BadBindings`."""
        faults = self.find_faults()
        if faults:
            raise BadBindings(faults)


def has_binding(node: Node) -> bool:
    """Whether a binding gave any part of it."""
    value = node.value
    if isinstance(value, Mapping):
        return any(map(has_binding, value.values()))
    return node.bound or (isinstance(value, tuple) and any(map(has_binding, value)))


def _is_name(text: str) -> bool:
    return _IS_NAME.fullmatch(text) is not None


def _find_fault(called: str, value: Any) -> str | None:
    if not _is_name(called):
        return _NO_NAME
    if not isinstance(value, str):
        return "must be a text"
    if "\0" in value:
        return "holds NUL, which no value can"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return "holds half a surrogate pair, which UTF-8 cannot encode"
    return f"has more than {MOST_BYTES:,} bytes" if size > MOST_BYTES else None


@dataclass(frozen=True, slots=True)
class _Filled:
    """What becomes of a text; None: it cannot be known."""

    text: str | None = None
    bound: bool = False
    is_bad: bool = False
    """It has something that looks like a binding and is none."""


class _Putting:
    """A walk through the nodes of a document."""

    def __init__(self, values: Mapping[str, str], faults: list[Fault]) -> None:
        self.asked: dict[str, str] = {}
        """The bindings that the document has, each with what is told where it is missing."""
        self._values = values
        self._faults = faults
        self._made = 0
        # Aliases repeat a text: it is looked through once.
        self._filled: dict[str, _Filled] = {}
        self._places: list[str | int] = []

    def put(self, node: Node) -> Node:
        """The same node where nothing in it changes. It calls itself for each level, of which there are few."""
        value = node.value
        if isinstance(value, str):
            return self._put_into_text(node, value) if _PLAIN in value else node
        if isinstance(value, Mapping):
            members = {key: self._put_below(key, member) for key, member in value.items()}
            changed = any(member is not value[key] for key, member in members.items())
            return Node(members, node.line) if changed else node
        if isinstance(value, tuple):
            items = tuple(self._put_below(index, item) for index, item in enumerate(value))
            return Node(items, node.line) if any(map(_differ, items, value)) else node
        return node

    def _put_below(self, place: str | int, node: Node) -> Node:
        self._places.append(place)
        put = self.put(node)
        self._places.pop()
        return put

    def _put_into_text(self, node: Node, text: str) -> Node:
        filled = self._filled.get(text)
        if filled is None:
            filled = self._filled[text] = self._fill(text, node.line)
        else:
            self._count(len(filled.text or ""), node.line)
        if filled.is_bad:
            add_fault(self._faults, Fault(format_path(self._places), node.line, _NO_BINDING))
        if filled.text is None:
            return Node(Unreadable.VALUE, node.line)
        return Node(filled.text, node.line, filled.bound)

    def _fill(self, text: str, line: int) -> _Filled:
        marks = [*_MARK.finditer(text)]
        asked = dict.fromkeys(called for mark in marks if (called := mark["name"]))
        path = format_path(self._places)
        where = f"is missing: line {line} has it{f', at {path}' if path else ''}"
        for called in asked:
            self.asked.setdefault(called, where)
        if any(mark["bad"] for mark in marks):
            return _Filled(is_bad=True)
        if any(called not in self._values for called in asked):
            return _Filled()
        self._count(len(text) + sum(len(self._stands_for(mark)) - len(mark[0]) for mark in marks), line)
        return _Filled(_MARK.sub(self._stands_for, text), bound=bool(asked))

    def _count(self, length: int, line: int) -> None:
        """A text of this length comes, and is not made yet."""
        self._made += length
        if self._made > MOST_CHARACTERS:
            raise DocumentFault([*self._faults, Fault(format_path(self._places), line, _TOO_LONG)])

    def _stands_for(self, mark: "re.Match[str]") -> str:
        called = mark["name"]
        return self._values[called] if called else _PLAIN


def _differ(one: Node, other: Node) -> bool:
    return one is not other
