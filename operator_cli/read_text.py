"""Reads a file that a command is given."""

import sys
from pathlib import Path

from operator_cli.failure import CommandFailed

MOST_CHARACTERS = 50_000
"""Of a workflow or configuration document."""
_MOST_VARIABLES_KIB = 256


def read_document(file: str) -> str:
    """A workflow or configuration document, of which no more is read than one may have bytes. Raises
    `CommandFailed`."""
    # UTF-8 has four bytes at most for a character.
    return read_text(file, 4 * MOST_CHARACTERS, f"{MOST_CHARACTERS:,} characters")


def read_variables(file: str) -> str:
    """`NAME=value` lines, up to 256 KiB. Raises `CommandFailed`."""
    return read_text(file, _MOST_VARIABLES_KIB * 1024, f"{_MOST_VARIABLES_KIB} KiB")


def read_text(file: str, most_bytes: int, most: str) -> str:
    """The text of a file, or of standard input for `-`, of which no more than `most_bytes` is read; `most` says in
    words how much that is. Raises `CommandFailed`."""
    try:
        if file == "-":
            content = sys.stdin.buffer.read(most_bytes + 1)
        else:
            with Path(file).open("rb") as opened:
                content = opened.read(most_bytes + 1)
    except OSError as error:
        raise CommandFailed(f"{file} cannot be read: {error.strerror}.") from None
    if len(content) > most_bytes:
        raise CommandFailed(f"{file} has more than {most}, which is the most.")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise CommandFailed(f"{file} is no text in UTF-8: write it as such.") from None
