"""YAML 1.2 without surprises: one document of plain values, each with its line.

The parser's events are walked. Composing them with PyYAML is not safe: with libyaml it calls itself for each level, and
a text of some thousand brackets ends the process.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import yaml

from control_domain.documents.core_scalars import BadScalar, Scalar, is_core_tag, read_scalar, refuse_tag
from control_domain.documents.faults import DocumentFault, Fault, add_fault, join_path, name

LONGEST_TEXT = 50_000
"""Characters."""
DEEPEST = 32
MOST_VALUES = 10_000
"""Keys among them, once every alias stands for what it means. Each costs time, however short it is."""
MOST_EXPANDED = 10
"""How many times as many nodes as are written there may be once every alias stands for what it means."""

# libyaml reads texts in a tenth of the time; not every platform has it.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# What YAML does not allow, and what it may take for a line's end where editors do not, or the other way round.
_CONTROL = re.compile(
    "[^\t\n\r\x20-\x7e\u00a0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_LINE_END = re.compile("\r\n|\r|\n")


class Unread(Enum):
    """What stands for a value that is at fault already: nothing more is to be said of it."""

    FAULTY = "faulty"


@dataclass(frozen=True, slots=True)
class Node:
    """A value, and the line, from 1, of the key or item that it belongs to: of the alias and not of the anchor."""

    value: "Value"
    line: int
    bound: bool = False
    """Whether it is a text of which a binding gave some part: no message may have it."""


Value = Scalar | Unread | Mapping[str, Node] | tuple[Node, ...]


def read_yaml(text: str) -> Node:
    """The value of the text's only document. Raises `DocumentFault`."""
    faults: list[Fault] = []
    node = collect_yaml(text, faults)
    if node is None or faults:
        raise DocumentFault(faults)
    return node


def collect_yaml(text: str, faults: list[Fault]) -> Node | None:
    """The same for who has more to say of it: what is wrong is added to `faults`. Where values can be read
    nevertheless, those at fault are `Unread`; else None. Raises `DocumentFault` where there are very many."""
    text = text.removeprefix("\ufeff")
    if len(text) > LONGEST_TEXT:
        faults.append(Fault("", 1, f"has more than {LONGEST_TEXT:,} characters"))
        return None
    control = _CONTROL.search(text)
    if control is not None:
        message = f"the character U+{ord(control[0]):04X} is not taken as it stands"
        faults.append(Fault("", 1 + _count_lines(text[: control.start()]), message))
        return None
    reading = _Reading(faults)
    try:
        reading.walk(yaml.parse(text, Loader=_Loader))
    except _Hopeless as error:
        faults.append(error.fault)
        return None
    except yaml.MarkedYAMLError as error:
        faults.append(_told_invalid(error, 1 + _count_lines(text.rstrip())))
        return None
    return reading.root


def _count_lines(text: str) -> int:
    return len(_LINE_END.findall(text))


def _told_invalid(error: Any, last_line: int) -> Fault:
    """`error`: a `MarkedYAMLError`, each part of which may be missing."""
    mark = error.problem_mark or error.context_mark
    line = last_line if mark is None else min(mark.line + 1, last_line)
    begun = error.context_mark
    context = f", {error.context}" if error.context else ""
    since = f" that begins on line {min(begun.line + 1, last_line)}" if context and begun is not None else ""
    return Fault("", line, f"is no YAML: {error.problem}{context}{since}")


class _Hopeless(Exception):
    """What follows cannot be read, or must not be."""

    def __init__(self, path: str, line: int, message: str) -> None:
        self.fault = Fault(path, line, message)
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class _Whole:
    """What an anchor stands for: with all aliases written out so many nodes, so many collections deep, with texts of so
    many characters together."""

    value: Value
    size: int = 1
    height: int = 0
    length: int = 0
    is_merge: bool = False


@dataclass(slots=True)
class _Open:
    """A collection that is being read."""

    path: str
    line: int
    anchor: str | None
    keyed: bool
    members: dict[str, Node] = field(default_factory=dict)
    items: list[Node] = field(default_factory=list)
    size: int = 1
    height: int = 1
    length: int = 0
    awaits_value: bool = False
    key: str | None = None
    """None while the value of a key at fault is read: it is of no use."""
    key_line: int = 0

    def next_path(self) -> str:
        """Where the next value belongs."""
        if not self.keyed:
            return f"{self.path}[{len(self.items)}]"
        return self.path if self.key is None else join_path(self.path, self.key)


class _Reading:
    """A walk through the events of one text."""

    def __init__(self, faults: list[Fault]) -> None:
        self.root: Node | None = None
        self._faults = faults
        self._open: list[_Open] = []
        # None: it is open still.
        self._anchors: dict[str, _Whole | None] = {}
        self._begun = 1
        self._written = self._expanded = self._aliased = 0
        self._after_aliases: list[tuple[str, int, int]] = []
        """Path and line of each alias, and how many nodes there were after it."""

    def walk(self, events: Iterable[Any]) -> None:
        """Raises `_Hopeless` and `MarkedYAMLError`."""
        read: Mapping[type, Callable[[Any], None]] = {
            yaml.DocumentStartEvent: self._begin,
            yaml.MappingStartEvent: self._open_collection,
            yaml.SequenceStartEvent: self._open_collection,
            yaml.MappingEndEvent: self._close_collection,
            yaml.SequenceEndEvent: self._close_collection,
            yaml.ScalarEvent: self._read_scalar,
            yaml.AliasEvent: self._follow,
        }
        for event in events:
            if type(event) in read:
                read[type(event)](event)
        if self.root is None:
            raise _Hopeless("", 1, "is empty")
        for path, line, nodes in self._after_aliases:
            if nodes > MOST_EXPANDED * self._written:
                raise _Hopeless(
                    path, line, f"aliases make the document more than {MOST_EXPANDED} times as large"
                )

    def _begin(self, event: Any) -> None:
        line = event.start_mark.line + 1
        if self.root is not None:
            raise _Hopeless("", line, "a second document begins here: only one is taken")
        if event.version not in (None, (1, 2)):
            raise _Hopeless("", line, "is not YAML 1.2: leave the %YAML line out")
        self._begun = event.end_mark.line + 1

    def _path(self) -> str:
        return self._open[-1].next_path() if self._open else ""

    def _refuse(self, line: int, message: str) -> None:
        add_fault(self._faults, Fault(self._path(), line, message))

    def _open_collection(self, event: Any) -> None:
        line, keyed = event.start_mark.line + 1, isinstance(event, yaml.MappingStartEvent)
        self._check_depth(line, 1)
        if not is_core_tag(event.tag, "map" if keyed else "seq"):
            self._refuse(line, refuse_tag(event.tag))
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._count(line, 1)
        self._open.append(_Open(self._path(), line, event.anchor, keyed))

    def _close_collection(self, event: Any) -> None:
        closed = self._open.pop()
        value: Value = closed.members if closed.keyed else tuple(closed.items)
        if closed.anchor is not None:
            self._anchors[closed.anchor] = _Whole(value, closed.size, closed.height, closed.length)
        self._place(value, closed.line, closed.size, closed.height, closed.length)

    def _read_scalar(self, event: Any) -> None:
        line, plain = event.start_mark.line + 1, not event.style
        value: Value
        try:
            value = read_scalar(event.value, event.tag, plain)
        except BadScalar as error:
            self._refuse(line, str(error))
            value = Unread.FAULTY
        is_merge = value == "<<" and plain and event.tag is None
        if event.anchor is not None:
            self._anchors[event.anchor] = _Whole(value, length=len(event.value), is_merge=is_merge)
        self._count(line, 1)
        self._place(value, line, length=len(event.value), is_merge=is_merge)

    def _follow(self, event: Any) -> None:
        line = event.start_mark.line + 1
        if event.anchor not in self._anchors:
            raise _Hopeless(self._path(), line, f"there is no anchor {name(event.anchor)} before this alias")
        whole = self._anchors[event.anchor]
        if whole is None:
            raise _Hopeless(self._path(), line, f"the anchor {name(event.anchor)} holds itself")
        self._check_depth(line, whole.height)
        self._count(line, whole.size)
        self._aliased += whole.length
        if self._aliased > MOST_EXPANDED * LONGEST_TEXT:
            message = f"aliases stand for more than {MOST_EXPANDED * LONGEST_TEXT:,} characters"
            raise _Hopeless(self._path(), line, message)
        self._after_aliases.append((self._path(), line, self._expanded))
        self._place(whole.value, line, whole.size, whole.height, whole.length, whole.is_merge)

    def _check_depth(self, line: int, more: int) -> None:
        if len(self._open) + more > DEEPEST:
            raise _Hopeless(self._path(), line, f"is nested deeper than {DEEPEST} levels")

    def _count(self, line: int, size: int) -> None:
        self._written += 1
        self._expanded += size
        if self._expanded > MOST_VALUES:
            message = f"is one of more than {MOST_VALUES:,} values, with those that aliases stand for"
            raise _Hopeless(self._path(), line, message)

    def _place(
        self,
        value: Value,
        line: int,
        size: int = 1,
        height: int = 0,
        length: int = 0,
        is_merge: bool = False,
    ) -> None:
        """Put a value where it belongs: it is a key, a key's value, an item, or all that there is."""
        if not self._open:
            # Nothing has no place of its own.
            self.root = Node(value, self._begun if value is None else line)
            return
        parent = self._open[-1]
        parent.size += size
        parent.length += length
        if height >= parent.height:
            parent.height = height + 1
        if not parent.keyed:
            parent.items.append(Node(value, line))
        elif not parent.awaits_value:
            parent.awaits_value, parent.key_line = True, line
            parent.key = self._read_key(parent, value, is_merge, line)
        else:
            if parent.key is not None:
                parent.members[parent.key] = Node(value, parent.key_line)
            parent.awaits_value, parent.key = False, None

    def _read_key(self, parent: _Open, key: Value, is_merge: bool, line: int) -> str | None:
        """None for one that cannot be."""
        if is_merge:
            self._refuse(line, "merge keys (<<) are not taken: write what you want merged")
        elif not isinstance(key, str):
            if key is not Unread.FAULTY:
                self._refuse(line, "a key is not text: write it in quotes")
        elif key in parent.members:
            before = parent.members[key].line
            told = Fault(join_path(parent.path, key), line, f"is given on line {before} already")
            add_fault(self._faults, told)
        else:
            return key
        return None
