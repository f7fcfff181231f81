"""YAML 1.2 without surprises: one document of plain values, each with its line.

Reads the parser's events. `yaml.compose` with libyaml is not safe: it calls itself for each level in C, and a text of
some thousand brackets ends the process.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import yaml

from control_domain.documents.core_scalars import (
    BadScalar,
    Scalar,
    describe_bad_tag,
    is_core_tag,
    read_scalar,
)
from control_domain.documents.faults import (
    DocumentFault,
    Fault,
    Places,
    add_fault,
    format_path,
    quote,
)

MAX_CHARACTERS = 50_000
MAX_DEPTH = 32
MAX_VALUES = 10_000
"""Values and keys, where each alias counts as the values that it stands for. Even a short value takes time to check."""
MAX_EXPANSION = 10
"""Limit of the factor by which aliases may multiply the number of values in the text."""

# libyaml reads texts in a tenth of the time; not every platform has it.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Characters that YAML does not allow, and those that either YAML or editors take for the end of a line, but not both.
_CONTROL = re.compile(
    "[^\t\n\r\x20-\x7e\u00a0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_LINE_END = re.compile("\r\n|\r|\n")


class Unreadable(Enum):
    """Stands for a value whose fault is recorded already: no further fault is reported for it."""

    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Node:
    """A value, and the line, from 1, of its key or item. The value of an alias has the line of the alias."""

    value: "Value"
    line: int
    bound: bool = False
    """True for a text that contains the value of a binding: no message may quote it."""


Value = Scalar | Unreadable | Mapping[str, Node] | tuple[Node, ...]


def read_yaml(text: str) -> Node:
    """Return the value of the text's only document. Raises `DocumentFault`."""
    faults: list[Fault] = []
    node = collect_yaml(text, faults)
    if node is None or faults:
        raise DocumentFault(faults)
    return node


def collect_yaml(text: str, faults: list[Fault]) -> Node | None:
    """Return the value of the text's only document with `Unreadable` in place of faulty values; None if the text cannot
    be read to its end.

    Adds faults to `faults`. Raises `DocumentFault` at the 100th fault.
    """
    text = text.removeprefix("\ufeff")
    if len(text) > MAX_CHARACTERS:
        faults.append(Fault("", 1, f"has more than {MAX_CHARACTERS:,} characters"))
        return None
    control = _CONTROL.search(text)
    if control is not None:
        message = f"the character U+{ord(control[0]):04X} is not allowed"
        faults.append(Fault("", 1 + _count_lines(text[: control.start()]), message))
        return None
    try:
        return _Reader(text, faults).read_document()
    except _CannotContinue as error:
        faults.append(error.fault)
    except yaml.MarkedYAMLError as error:
        faults.append(_syntax_fault(error, 1 + _count_lines(text.rstrip())))
    return None


def _count_lines(text: str) -> int:
    return len(_LINE_END.findall(text))


def _syntax_fault(error: Any, last_line: int) -> Fault:
    """Convert a `MarkedYAMLError`, each part of which may be missing, into a fault with its line."""
    mark = error.problem_mark or error.context_mark
    line = last_line if mark is None else min(mark.line + 1, last_line)
    start = error.context_mark
    context = f", {error.context}" if error.context else ""
    since = f" that begins on line {min(start.line + 1, last_line)}" if context and start is not None else ""
    return Fault("", line, f"is no YAML: {error.problem}{context}{since}")


class _CannotContinue(Exception):
    """The rest of the text cannot be read, or must not be."""

    def __init__(self, path: str, line: int, message: str) -> None:
        self.fault = Fault(path, line, message)
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class _Anchored:
    """The value of an anchor, and the size that each of its aliases adds to the document."""

    value: Value
    size: int
    """The number of values in it, including keys and the value itself."""
    length: int
    """The number of characters of all scalars in it."""
    height: int = 0
    """Levels of collections."""
    is_merge: bool = False


class _Reader:
    """Reads one text. Recursion is safe, because it ends at `MAX_DEPTH`."""

    def __init__(self, text: str, faults: list[Fault]) -> None:
        self._events = yaml.parse(text, Loader=_Loader)
        self._faults = faults
        # None while the collection is not read to its end.
        self._anchors: dict[str, _Anchored | None] = {}
        self._places: list[str | int | None] = []
        """The key or index in each open collection; None while a key, or the value of a faulty key, is read."""
        self._written = 0
        """Values in the text, where an alias counts as one. The other counters count the values that an alias stands
        for."""
        self._size = self._length = self._aliased_length = 0
        # The place of each alias, its line, and how many values there were after it.
        self._aliases: list[tuple[Places, int, int]] = []

    def read_document(self) -> Node:
        """Raises `_CannotContinue` and `MarkedYAMLError`."""
        next(self._events)
        start = next(self._events)
        if isinstance(start, yaml.StreamEndEvent):
            raise self._cannot_continue(1, "is empty")
        if start.version not in (None, (1, 2)):
            raise self._cannot_continue(_line(start), "is not YAML 1.2: remove the %YAML line")
        event = next(self._events)
        value, _ = self._read_value(event)
        next(self._events)
        end = next(self._events)
        if not isinstance(end, yaml.StreamEndEvent):
            raise self._cannot_continue(_line(end), "a second document begins here: only one is allowed")
        for places, line, size in self._aliases:
            if size > MAX_EXPANSION * self._written:
                message = f"aliases make the document more than {MAX_EXPANSION} times as large"
                raise _CannotContinue(format_path(places), line, message)
        # An empty document has no line of its own.
        return Node(value, start.end_mark.line + 1 if value is None else _line(event))

    def _read_value(self, event: Any) -> tuple[Value, int]:
        """Return the value that begins with this event, and how many levels of collections it has."""
        if isinstance(event, yaml.ScalarEvent):
            return self._read_scalar(event), 0
        if isinstance(event, yaml.AliasEvent):
            return self._follow_alias(event)
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        self._check_depth(_line(event), 1)
        if not is_core_tag(event.tag, "map" if is_mapping else "seq"):
            self._refuse(_line(event), describe_bad_tag(event.tag))
        size, length = self._size, self._length
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._count(event, 1, 0)
        self._places.append(None)
        value, height = self._read_mapping() if is_mapping else self._read_list()
        self._places.pop()
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, self._size - size, self._length - length, height)
        return value, height

    def _read_scalar(self, event: Any) -> Value:
        value: Value
        try:
            value = read_scalar(event.value, event.tag, not event.style)
        except BadScalar as error:
            self._refuse(_line(event), str(error))
            value = Unreadable.VALUE
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(
                value, 1, len(event.value), is_merge=self._is_merge(event)
            )
        self._count(event, 1, len(event.value))
        return value

    def _follow_alias(self, event: Any) -> tuple[Value, int]:
        line = _line(event)
        if event.anchor not in self._anchors:
            message = f"there is no anchor {quote(event.anchor)} before this alias"
            raise self._cannot_continue(line, message)
        anchored = self._anchors[event.anchor]
        if anchored is None:
            raise self._cannot_continue(line, f"the anchor {quote(event.anchor)} holds itself")
        self._check_depth(line, anchored.height)
        self._count(event, anchored.size, anchored.length)
        self._aliased_length += anchored.length
        if self._aliased_length > MAX_EXPANSION * MAX_CHARACTERS:
            message = f"aliases stand for more than {MAX_EXPANSION * MAX_CHARACTERS:,} characters"
            raise self._cannot_continue(line, message)
        self._aliases.append((tuple(self._places), line, self._size))
        return anchored.value, anchored.height

    def _read_list(self) -> tuple[Value, int]:
        items: list[Node] = []
        below = 0
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            self._places[-1] = len(items)
            value, height = self._read_value(event)
            items.append(Node(value, _line(event)))
            below = max(below, height)
        return tuple(items), below + 1

    def _read_mapping(self) -> tuple[Value, int]:
        members: dict[str, Node] = {}
        below = 0
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            line = _line(event)
            self._places[-1] = None
            found, key_height = self._read_value(event)
            self._places[-1] = key = self._check_key(event, found, members)
            value, height = self._read_value(next(self._events))
            if key is not None:
                members[key] = Node(value, line)
            below = max(below, key_height, height)
        return members, below + 1

    def _check_key(self, event: Any, key: Value, members: Mapping[str, Node]) -> str | None:
        """Return the key that was read from this event, or None for a faulty one."""
        line = _line(event)
        if self._is_merge(event):
            self._refuse(line, "merge keys (<<) are not supported: write the merged keys instead")
        elif not isinstance(key, str):
            if not isinstance(key, Unreadable):
                self._refuse(line, "a key is not text: write it in quotes")
        elif key in members:
            self._places[-1] = key
            self._refuse(line, f"is given already on line {members[key].line}")
        else:
            return key
        return None

    def _is_merge(self, event: Any) -> bool:
        if isinstance(event, yaml.AliasEvent):
            anchored = self._anchors[event.anchor]
            return anchored is not None and anchored.is_merge
        return (
            isinstance(event, yaml.ScalarEvent)
            and event.value == "<<"
            and not event.style
            and event.tag is None
        )

    def _check_depth(self, line: int, levels: int) -> None:
        if len(self._places) + levels > MAX_DEPTH:
            raise self._cannot_continue(line, f"is nested deeper than {MAX_DEPTH} levels")

    def _count(self, event: Any, size: int, length: int) -> None:
        self._written += 1
        self._size += size
        self._length += length
        if self._size > MAX_VALUES:
            message = f"is one of more than {MAX_VALUES:,} values, with those that aliases stand for"
            raise self._cannot_continue(_line(event), message)

    def _refuse(self, line: int, message: str) -> None:
        add_fault(self._faults, Fault(format_path(self._places), line, message))

    def _cannot_continue(self, line: int, message: str) -> _CannotContinue:
        return _CannotContinue(format_path(self._places), line, message)


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1
