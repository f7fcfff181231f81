"""Commands in messages, written so that they can be typed where the message is read."""

import os
import re
import shlex
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

_NAME = "pharos"
_QUOTED = re.compile(rf"`{_NAME}(?= )")


def typed_command(words: Sequence[str]) -> str:
    """`pharos` with these arguments, quoted for a shell."""
    return f"{program()} {shlex.join(words)}" if words else program()


def typed_commands(text: str) -> str:
    """The text, in which each `` `pharos … ` `` begins with what a shell finds."""
    return (
        text
        if f"`{_NAME} " not in text or program() == _NAME
        else _QUOTED.sub(lambda _: f"`{program()}", text)
    )


@cache
def program() -> str:
    """What starts this program in a shell in the current folder: `pharos` if it is found on PATH, else its path."""
    return find_program(sys.argv[0], os.environ.get("PATH"), Path.cwd())


def find_program(started_as: str, path: str | None, folder: Path) -> str:
    """What starts the script `started_as` (`sys.argv[0]`) in a shell in `folder`, whose PATH is `path`."""
    script = Path(started_as)
    if script.name != _NAME or not script.is_file():
        # `python -m operator_cli.main`, or a test that calls a function.
        return _NAME
    # Only here: it takes its time to import, and most commands print no other.
    import shutil

    found = shutil.which(_NAME, path=path)
    if found is not None and Path(found).resolve() == script.resolve():
        return _NAME
    at = script.absolute()
    return shlex.quote(str(at.relative_to(folder) if at.is_relative_to(folder) else at))
