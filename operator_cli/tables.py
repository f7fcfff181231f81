"""Tables that fit the terminal: no word is broken, IDs are shortened, and less important columns give way.

    print_table(
        arguments,
        [Column("Name"), Column("Account", is_optional=True), Column("Created", wraps=False), Column("ID", is_id=True)],
        [(row["name"], row["account"]["slug"], format_age(row["created_at"]), row["id"]) for row in rows],
        empty="No projects yet. `pharos project create NAME` makes one.",
    )

With `--wide` everything is printed in full. `rich` takes 60 ms to import, so import this module where a table is shown.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from operator_cli.messages import qualify_commands
from operator_cli.terminal_text import make_cell

_GAP: Final = 2
_MIN_ID_CHARACTERS: Final = 12
# 12 characters are the time and about 6 random bits; 16 have 24 random bits.
_MIN_LATER_CHARACTERS: Final = 16
# A longer word is cut with an ellipsis if its column has no more room.
_MAX_WORD_CHARACTERS: Final = 30
_MIN_CUT_CHARACTERS: Final = 8
_UNLIMITED: Final = 100_000

Cell = str | int | Text | None
"""A cell. None is shown as `-`. Plain text is sanitized, and markup in it is not interpreted."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str
    wraps: bool = True
    """True if its text may continue on the next line. Names, numbers, times and states read better if it does not."""
    is_id: bool = False
    """Shorten its IDs to the part that distinguishes them, and do not wrap them."""
    made_together: bool = False
    """True if many of its IDs were created at the same time, so that only later characters distinguish them from IDs
    that are not in the table."""
    is_optional: bool = False
    """Leave the column out if all its cells are None, or if the table does not fit. Of several such columns, the last
    one is left out first."""
    is_number: bool = False
    """Align its numbers on the right, and do not wrap them."""
    min_width: int = 0
    """Leave out optional columns before its lines get shorter than this, if the text is longer. For texts that are hard
    to read in a narrow column, such as messages."""


def print_table(
    arguments: argparse.Namespace, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, empty: str
) -> None:
    """Print rows within the width of the terminal, or in full with `--wide`; `empty` if there are none."""
    if not rows:
        print(qualify_commands(empty))
        return
    is_wide = getattr(arguments, "wide", False)
    console = Console(width=_UNLIMITED if is_wide else None, highlight=False)
    cells = [[_make_cell(cell) for cell in row] for row in rows]
    if not is_wide:
        _shorten_ids(columns, cells)
    # Leave out an optional column without values.
    filled = [
        i
        for i, column in enumerate(columns)
        if is_wide or not column.is_optional or any(row[i] is not None for row in rows)
    ]
    shown = filled.copy()
    while (
        widths := _fit([_measure(columns[i], [row[i] for row in cells]) for i in shown], console.width)
    ) is None:
        optional = [i for i in shown if columns[i].is_optional]
        if not optional:
            widths = _cut(
                [_measure(columns[i], [row[i] for row in cells]) for i in shown],
                # A shortened ID that is cut could name several rows.
                [columns[i].is_id for i in shown],
                console.width,
            )
            break
        shown.remove(optional[-1])
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), collapse_padding=False)
    for i, width in zip(shown, widths, strict=True):
        table.add_column(
            columns[i].title,
            justify="right" if columns[i].is_number else "left",
            width=width,
            overflow="ellipsis",
            no_wrap=not _wraps(columns[i]),
        )
    for row in cells:
        table.add_row(*(row[i] for i in shown))
    console.print(table)
    hidden = [columns[i].title for i in filled if i not in shown]
    if hidden and console.is_terminal:
        console.print(Text(f"--wide also shows: {', '.join(hidden)}.", style="dim"))


@dataclass(frozen=True, slots=True)
class _Widths:
    """The full width of a column, and the least width that breaks no words and is not less than its `min_width`."""

    full: int
    least: int


def _measure(column: Column, cells: Sequence[Text]) -> _Widths:
    lines = [line for cell in cells for line in cell.plain.splitlines()] + [column.title]
    full = max(map(cell_len, lines))
    if not _wraps(column):
        return _Widths(full, full)
    longest_word = max(cell_len(word) for line in lines for word in line.split() or [""])
    least = min(longest_word, max(_MAX_WORD_CHARACTERS, cell_len(column.title)))
    return _Widths(full, max(least, min(full, column.min_width)))


def _fit(columns: Sequence[_Widths], available: int) -> list[int] | None:
    """Return the widths of columns that fit together; None if they do not fit even with every text wrapped."""
    available -= _GAP * (len(columns) - 1)
    if sum(column.least for column in columns) > available:
        return None
    widths = [column.full for column in columns]
    while sum(widths) > available:
        # Shrink the widest columns that can shrink, so that long texts share the remaining room.
        widest = max(
            (i for i, column in enumerate(columns) if widths[i] > column.least), key=lambda i: widths[i]
        )
        widths[widest] -= 1
    return widths


def _cut(columns: Sequence[_Widths], stays: Sequence[bool], available: int) -> list[int]:
    """Return widths that fit although words have to be cut: the widest columns lose the most. A column that `stays` has
    its full width."""
    available -= _GAP * (len(columns) - 1)
    widths = [column.least for column in columns]
    while sum(widths) > available:
        widest = max((i for i, whole in enumerate(stays) if not whole), key=lambda i: widths[i], default=None)
        if widest is None:
            break
        if widths[widest] <= _MIN_CUT_CHARACTERS:
            break
        widths[widest] -= 1
    return widths


def _wraps(column: Column) -> bool:
    return column.wraps and not column.is_id and not column.is_number


def _make_cell(cell: Cell) -> Text:
    if isinstance(cell, Text):
        return cell
    return make_cell("-" if cell is None else str(cell))


def _shorten_ids(columns: Sequence[Column], rows: Sequence[list[Text]]) -> None:
    for i, column in enumerate(columns):
        if column.is_id:
            least = _MIN_LATER_CHARACTERS if column.made_together else _MIN_ID_CHARACTERS
            shortened = shorten_ids([row[i].plain for row in rows], least)
            for row, text in zip(rows, shortened, strict=True):
                row[i] = Text(text, style=row[i].style)


def shorten_ids(ids: Sequence[str], least: int = _MIN_ID_CHARACTERS) -> list[str]:
    """Return the beginnings of IDs that distinguish them, with at least this number of characters after the prefix.
    Commands accept the beginning of an ID."""
    length = least
    while len({_shorten(each, length) for each in ids}) < len(set(ids)):
        length += 1
    return [_shorten(each, length) for each in ids]


def _shorten(identifier: str, length: int) -> str:
    prefix, separator, rest = identifier.partition("_")
    return f"{prefix}_{rest[:length]}" if separator else identifier[:length]
