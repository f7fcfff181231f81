"""Chooses one row by a name that a person has typed, with errors that list or suggest names."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from operator_cli.errors import CommandFailed, NoSuchName
from operator_cli.suggestions import suggest
from operator_cli.terminal_text import sanitize

T = TypeVar("T")

_MAX_LISTED: Final = 20
# The prefix, `_`, and the number of characters that tables show of an ID.
_MIN_ID_PREFIX: Final = 8


def choose(
    rows: Sequence[T],
    name: str | None,
    *,
    noun: str,
    keys: Callable[[T], Sequence[str]],
    label: Callable[[T], str],
    where: str = "",
    how: Callable[[], str] = lambda: "Name one of them",
) -> T:
    """Return the row that `name` names; the only row for None.

    `keys` returns the names of a row: its ID, then the others by precedence, so that a project of the name `shop` does
    not hide one of the slug `shop`. `label` returns the name that messages list, and `how` what a person can do who
    has named none. If no name matches exactly, names in another case match, and after that the beginning of an ID.
    Raises `NoSuchName` if nothing matches, `CommandFailed` if several rows do.
    """
    matching = list(rows) if name is None else find_matching(rows, name, keys)
    if len(matching) == 1:
        return matching[0]
    if not rows:
        raise NoSuchName(f"There is no {noun}{where} yet.")
    if name is None:
        raise CommandFailed(f"There are several {_plural(noun)}{where}: {_join(map(label, rows))}. {how()}.")
    if matching:
        raise CommandFailed(
            f"{name!r} means several {_plural(noun)}{where}. Name one of them: {_join(map(label, matching))}."
        )
    labels: dict[str, str] = {}
    # Compare position by position, so that the slug of one row comes before the same name of another.
    for position in range(1, len(keys(rows[0]))):
        for row in rows:
            labels.setdefault(keys(row)[position], label(row))
    labels |= {label(row): label(row) for row in rows}
    suggestion = suggest(name, filter(None, labels), labels)
    listed = "" if suggestion else f" There are: {_join(map(label, rows))}."
    raise NoSuchName(f"There is no {noun} {name!r}{where}.{suggestion}{listed}")


def _plural(noun: str) -> str:
    return f"{noun.removesuffix('y')}ies" if noun.endswith("y") else f"{noun}s"


def find_matching(rows: Sequence[T], name: str, keys: Callable[[T], Sequence[str]]) -> list[T]:
    """Return the rows of the best kind of match that finds any."""
    if not name:
        return []
    folded = name.casefold()
    for convert, wanted in ((str, name), (str.casefold, folded)):
        for position in range(len(keys(rows[0])) if rows else 0):
            if found := [row for row in rows if convert(keys(row)[position]) == wanted]:
                return found
    if "_" in name and len(name) >= _MIN_ID_PREFIX:
        return [row for row in rows if keys(row)[0].startswith(name)]
    return []


def _join(labels: Iterable[str]) -> str:
    """Return the labels, sorted and separated by commas; only the first ones of many."""
    names = sorted(sanitize(label, max_length=100) for label in labels)
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(names[:_MAX_LISTED]) + more
