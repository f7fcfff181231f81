"""Read a text file, or standard input, that an argument names."""

import sys
from pathlib import Path

from operator_cli.errors import CommandFailed

MAX_CHARACTERS = 50_000
"""The limit of a workflow or configuration document."""
_MAX_VARIABLES_KIB = 256


def read_document(file: str) -> str:
    """Return a workflow or configuration document. Raises `CommandFailed`."""
    # A character has at most four bytes in UTF-8.
    return read_text(file, 4 * MAX_CHARACTERS, f"{MAX_CHARACTERS:,} characters")


def read_variables(file: str) -> str:
    """Return up to 256 KiB of `NAME=value` lines. Raises `CommandFailed`."""
    return read_text(file, _MAX_VARIABLES_KIB * 1024, f"{_MAX_VARIABLES_KIB} KiB")


def read_dotenv_file(file: str, failure: str) -> dict[str, str]:
    """Return the variables of a file of up to 256 KiB of `NAME=value` lines.

    Raises `CommandFailed`: `failure`, and a line for each fault.
    """
    text = read_variables(file)
    # Imported here: few commands read such a file.
    from control_domain.variables.dotenv import read_dotenv
    from pipeline_contracts.errors import InvalidInput

    try:
        return read_dotenv(text)
    except InvalidInput as error:
        faults = "\n".join(f"{file}: {fault.message}" for fault in error.errors)
        raise CommandFailed(f"{failure}\n{faults}") from None


def read_text(file: str, max_bytes: int, limit: str) -> str:
    """Return the text of a file of up to `max_bytes`, or of standard input for `-`.

    `limit` is the maximum in words, for the error message. Raises `CommandFailed`.
    """
    try:
        if file == "-":
            content = sys.stdin.buffer.read(max_bytes + 1)
        else:
            with Path(file).open("rb") as opened:
                content = opened.read(max_bytes + 1)
    except OSError as error:
        raise CommandFailed(f"{file} cannot be read: {error.strerror}.") from None
    if len(content) > max_bytes:
        raise CommandFailed(f"{file} has more than {limit}, which is the maximum.")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise CommandFailed(f"{file} is not UTF-8 text: save it in UTF-8.") from None
