"""Candidates for completion: `pharos __complete WORD…`, which the scripts of `pharos completion` call.

The last word is the one under the cursor, up to the cursor. Each line of the output is a candidate, a tab and its
description; the line `:file` lets the shell complete paths. Nothing is printed if anything fails: a shell would show
an error in the middle of the line that is being typed.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from operator_cli.errors import CommandFailed
from operator_cli.grammar.build_parser import build_parser
from operator_cli.grammar.command_parser import CommandParser
from operator_cli.grammar.commands import COMMANDS, find_command
from operator_cli.grammar.known_names import read_names

FILES: Final = ":file"
_MAX_DESCRIPTION_CHARACTERS: Final = 70

Candidates = Iterator[tuple[str, str]]
"""Pairs of a candidate and its description."""


def print_candidates(words: Sequence[str]) -> None:
    """Print the candidates for the last of the words that follow `pharos`."""
    *before, current = words or [""]
    for candidate, description in _find_candidates(before, current):
        if candidate == FILES:
            print(FILES)
        elif candidate.startswith(current):
            print(f"{candidate}\t{description.replace(chr(10), ' ')[:_MAX_DESCRIPTION_CHARACTERS]}")


def _find_candidates(before: Sequence[str], current: str) -> Candidates:
    if not before:
        yield from ((name, command.summary) for name, command in COMMANDS.items())
        return
    name = find_command(before[0])
    if name is None or "--" in before:
        return
    place = _Place(build_parser(name), [name, *before[1:]])
    if place.open_option is not None:
        yield from _values(place.open_option, place)
    elif current.startswith("-"):
        yield from place.flags()
    elif place.verbs is not None:
        helps = {action.dest: action.help or "" for action in place.verbs._choices_actions}
        yield from ((verb, helps.get(verb, "")) for verb in place.verbs.choices)
    elif (positional := place.next_positional()) is not None:
        yield from _values(positional, place)


class _Place:
    """The position of the cursor: its parser, and the arguments that the words before it have filled."""

    def __init__(self, parser: CommandParser, words: Sequence[str]) -> None:
        self.parser = parser
        self.open_option: argparse.Action | None = None
        """The flag before the cursor, if it still needs its value."""
        self.given: dict[str, str] = {}
        """The values of flags by the `dest` of the flag."""
        self._seen_flags: set[str] = set()
        self._values = 0
        for word in words:
            self._read(word)

    @property
    def verbs(self) -> "argparse._SubParsersAction[CommandParser] | None":
        return self.parser.verbs()

    def flags(self) -> Candidates:
        """Yield the long flags that were not given yet."""
        for action in self.parser._actions:
            names = [name for name in action.option_strings if name.startswith("--")]
            if (
                names
                and action.help != argparse.SUPPRESS
                and not self._seen_flags & set(action.option_strings)
            ):
                yield names[0], action.help or ""

    def next_positional(self) -> argparse.Action | None:
        """Return the argument to which the next word without a dash belongs."""
        positionals = self.parser._get_positional_actions()
        if self._values < len(positionals):
            return positionals[self._values]
        # The last argument may take several values.
        return positionals[-1] if positionals and positionals[-1].nargs in ("*", "+") else None

    def _read(self, word: str) -> None:
        if self.open_option is not None:
            self.given[self.open_option.dest] = word
            self.open_option = None
        elif word.startswith("-") and word != "-":
            name, has_value, value = word.partition("=")
            action = self.parser._option_string_actions.get(name)
            self._seen_flags.add(name)
            if action is not None and has_value:
                self.given[action.dest] = value
            elif action is not None and action.nargs != 0:
                self.open_option = action
        elif self.verbs is not None:
            inner = self.verbs.choices.get(word)
            self.parser = inner if inner is not None else CommandParser(add_help=False)
        else:
            self._values += 1


def _values(action: argparse.Action, place: _Place) -> Candidates:
    """Yield the values of an argument: its choices, the names of its kind, or files."""
    if action.choices is not None:
        yield from ((str(choice), "") for choice in action.choices)
        return
    kind = getattr(action, "completes", None)
    if kind == "file" or action.type is Path or action.metavar in ("FILE", "DIR"):
        yield FILES, ""
    elif kind is not None:
        yield from ((name, "") for name in _known_names(kind, place.given))


def _known_names(kind: str, given: Mapping[str, str]) -> Sequence[str]:
    try:
        return read_names(kind, profile=given.get("profile"), data=given.get("data"))
    except (CommandFailed, OSError):
        return ()
