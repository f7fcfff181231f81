"""The arguments of `pharos config plan` and `apply`: a document, and values for the names that it refers to."""

import argparse
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from operator_cli.api.problems import ApiRefused
from operator_cli.documents import read_faults, read_other_errors
from operator_cli.errors import CommandFailed
from operator_cli.read_text import read_document, read_dotenv_file
from operator_cli.terminal_text import sanitize

_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]{0,99}")


def add_file_argument(parser: argparse.ArgumentParser, *, is_optional: bool = False) -> None:
    """Add `FILE`."""
    parser.add_argument(
        "file",
        nargs="?" if is_optional else None,
        metavar="FILE",
        help="YAML of up to 50,000 characters; - reads standard input",
    )


def add_bindings(parser: argparse.ArgumentParser) -> None:
    """Add `--bind` and `--bind-file`."""
    parser.add_argument(
        "--bind",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="the value of ${NAME} in the document; NAME alone takes the value from the environment "
        "variable of that name. "
        "Can be given again; wins over files. VALUE appears in lists of processes: for secrets use a file",
    )
    parser.add_argument(
        "--bind-file",
        action="append",
        default=[],
        metavar="FILE",
        help="NAME=value lines in dotenv syntax, up to 256 KiB; - reads standard input. Can be given again: a later "
        "file wins over an earlier one",
    )


def read_document_body(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the body of a request for a plan or a review.

    Raises `CommandFailed`, whose message contains no value of a binding.
    """
    if [arguments.file, *arguments.bind_file].count("-") > 1:
        raise CommandFailed(
            "Standard input can be read once: name a file for the document or for its bindings."
        )
    document = read_document(arguments.file)
    bindings: dict[str, str] = {}
    for file in arguments.bind_file:
        bindings |= read_dotenv_file(file, "The bindings cannot be read.")
    bindings |= _parse_bindings(arguments.bind, os.environ)
    return {"document": document, "bindings": bindings}


@contextmanager
def explaining_faults(file: str) -> Iterator[None]:
    """Raise a refusal of the document in `file` or its bindings with a line for each fault."""
    try:
        yield
    except ApiRefused as error:
        faults, bindings = read_faults(error, "document"), read_other_errors(error, "bindings")
        lines = [f"  {fault.format(file)}" for fault in faults]
        if lines:
            lines.insert(0, "The document is not valid:")
        if bindings:
            lines.append("The bindings are not valid:")
            lines += [
                f"  {sanitize(f'{name}: {message}' if name else message)}" for name, message in bindings
            ]
        if not lines:
            raise
        raise CommandFailed("\n".join(lines)) from None


def _parse_bindings(texts: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    bindings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        # The message does not quote an invalid name: it may be a value whose name was forgotten.
        if not _NAME.fullmatch(name):
            raise CommandFailed(
                "--bind takes NAME=VALUE or NAME; a name has letters, digits and _, no digit first, and at most 100 "
                "characters."
            )
        if not equals:
            if name not in environment:
                raise CommandFailed(
                    f"--bind {name}: there is no environment variable {name}. Set it, or write {name}=VALUE."
                )
            value = environment[name]
        try:
            value.encode()
        except UnicodeEncodeError:
            raise CommandFailed(f"--bind {name}: the value is not UTF-8 text.") from None
        bindings[name] = value
    return bindings
