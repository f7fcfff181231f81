"""Output of commands: results, outages, and `pharos …` commands that can be typed in the current folder."""

import argparse
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from operator_cli.errors import CommandFailed

_NAME = "pharos"
_QUOTED = re.compile(rf"`{_NAME}(?= )")


def print_result(
    arguments: argparse.Namespace, result: Any, show: Callable[[Any], None], *, quiet: str = "id"
) -> int:
    """Print the result as JSON with `--json`, one word for each of its rows with `--quiet`, else through `show`, with
    its `warning`.

    `result` is the `data` of an answer. `quiet` is the member that `--quiet` prints: the ID, the secret that is shown
    only now, or the name of rows without an ID; `person.id` is in an inner object. For rows without this member, the
    ID is printed. Returns exit status 0.
    """
    if arguments.json:
        # Imported here because `pharos --help` does not need it.
        import json

        print(json.dumps(result))
        return 0
    if getattr(arguments, "quiet", False):
        for row in result if isinstance(result, list) else [result]:
            if (word := _read_member(row, quiet) or _read_member(row, "id")) is not None:
                print(word)
        return 0
    show(result)
    if isinstance(result, dict) and "warning" in result:
        print(qualify_commands(result["warning"]))
    return 0


def _read_member(row: Any, path: str) -> Any:
    """Return a member, `id` or `person.id`; None if there is none."""
    for name in path.split("."):
        row = row.get(name) if isinstance(row, dict) else None
    return row


class OutageNotice:
    """Reports on standard error that the installation is unreachable, once per outage."""

    def __init__(self) -> None:
        self._is_reported = False

    def report(self, error: CommandFailed) -> None:
        """Print the error if it is the first error of this outage."""
        if not self._is_reported:
            print(qualify_commands(f"pharos: {error} Still waiting."), file=sys.stderr)
        self._is_reported = True

    def end(self) -> None:
        """Note that the installation responds again."""
        self._is_reported = False


def format_command(words: Sequence[str]) -> str:
    """Return `pharos` with these arguments, quoted for a shell."""
    return f"{program_name()} {shlex.join(words)}" if words else program_name()


def qualify_commands(text: str) -> str:
    """Return the text with `program_name()` at the beginning of each `` `pharos … ` ``."""
    return (
        text
        if f"`{_NAME} " not in text or program_name() == _NAME
        else _QUOTED.sub(lambda _: f"`{program_name()}", text)
    )


@cache
def program_name() -> str:
    """Return how a shell in the current folder starts this program: `pharos` if it is on PATH, else its path."""
    return find_program(sys.argv[0], os.environ.get("PATH"), Path.cwd())


def find_program(started_as: str, path: str | None, folder: Path) -> str:
    """Return how a shell in `folder`, whose PATH is `path`, starts the script `started_as` (`sys.argv[0]`)."""
    script = Path(started_as)
    if script.name != _NAME or not script.is_file():
        # `python -m operator_cli.main`, or a test that calls a function.
        return _NAME
    # Imported here because it is slow, and most commands print no command.
    import shutil

    found = shutil.which(_NAME, path=path)
    if found is not None and Path(found).resolve() == script.resolve():
        return _NAME
    at = script.absolute()
    return shlex.quote(str(at.relative_to(folder) if at.is_relative_to(folder) else at))


def describe_not_live(environment: str) -> str:
    """Return the advice after a change of variables: running processes keep the ones they were started with."""
    return qualify_commands(f"Not live until the next deploy: `pharos deploy {environment}`.")
