"""The variables that the arguments of `pharos variables set` name, and where their values come from."""

import argparse
import os
import re
import sys
from collections.abc import Iterator
from typing import Final

from operator_cli.errors import CommandFailed, UsageError
from operator_cli.read_text import read_dotenv_file, read_variables

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STANDARD_INPUT: Final = "-"


def find_replacing_file(arguments: argparse.Namespace) -> str | None:
    """Return the file of `set ENVIRONMENT FILE`, which replaces all variables; None for another form.

    Raises `UsageError` for a file whose name could be the name of a variable, because replacing removes variables.
    """
    words: list[str] = arguments.variables
    if arguments.file is not None or len(words) != 1 or words[0] == _STANDARD_INPUT:
        return None
    word = words[0]
    if "=" in word or not os.path.exists(word):
        return None
    if _NAME.fullmatch(word):
        raise UsageError(
            f"{word} is a file, and could be a variable. `pharos variables replace {arguments.environment} {word}` "
            f"replaces all variables by the file, {word}=- reads the value of one from standard input."
        )
    return word


def read_values(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the variables to set with their values. Raises `CommandFailed`."""
    values: dict[str, str] = {}
    words: list[str] = arguments.variables
    from_input = [word for word in words if word == _STANDARD_INPUT or word.endswith(f"={_STANDARD_INPUT}")]
    if len(from_input) + (arguments.file == _STANDARD_INPUT) > 1:
        raise UsageError("Standard input can be read once: name - only once.")
    if arguments.file is not None:
        values |= read_dotenv_file(arguments.file, "The variables cannot be read.")
    for name, value in _read_words(words):
        values[name] = value
    name, equals, _ = arguments.environment.partition("=")
    if not values and equals:
        # Without the value, which may be a secret.
        raise UsageError(
            f"{name}=… is not an environment. Name one first: `pharos variables set ENVIRONMENT {name}=…`."
        )
    if not values:
        raise UsageError("Name the variables to set: KEY=VALUE, KEY, - or --file FILE.")
    return values


def _read_words(words: list[str]) -> Iterator[tuple[str, str]]:
    for number, word in enumerate(words, 1):
        if word == _STANDARD_INPUT:
            yield from read_dotenv_file(word, "The variables cannot be read.").items()
            continue
        name, equals, value = word.partition("=")
        # The message does not repeat the word, which may be a value whose name was forgotten.
        if _NAME.fullmatch(name) is None:
            raise UsageError(
                f"Argument {number} after the environment is neither KEY=VALUE, nor KEY, nor a file. A KEY has "
                "letters, digits and _, and does not begin with a digit."
            )
        if not equals:
            yield name, _ask(name)
        elif value == _STANDARD_INPUT:
            yield name, read_variables(_STANDARD_INPUT).removesuffix("\n").removesuffix("\r")
        else:
            yield name, value


def _ask(name: str) -> str:
    """Return the value that the person at the terminal types, which is not shown. Raises `CommandFailed`."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise CommandFailed(
            f"Without a terminal, pharos cannot ask for {name}: pass its value on standard input with {name}=-."
        )
    # Imported here because scripts do not need it.
    import getpass

    try:
        return getpass.getpass(f"{name} (not shown): ")
    except EOFError:
        raise CommandFailed("Nothing was entered.") from None
