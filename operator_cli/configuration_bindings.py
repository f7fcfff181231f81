"""Reads what configuration commands are given: a document, and the values that it binds to names."""

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from operator_cli.environment import add_project_argument
from operator_cli.failure import CommandFailed
from operator_cli.read_text import read_document, read_variables

_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]{0,99}")


def add_document_arguments(parser: argparse.ArgumentParser) -> None:
    """The document, `--project`, `--bind` and `--bind-file`."""
    parser.add_argument(
        "file", metavar="FILE", help="YAML of up to 50,000 characters; - reads standard input"
    )
    add_project_argument(parser, "prj_…, its number or slug; may be left out where there is only one")
    parser.add_argument(
        "--bind",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="what ${NAME} in the document stands for; just NAME takes it from the environment variable of that name. "
        "Can be given again; wins over files. Whoever may list processes here sees VALUE: for secrets take a file",
    )
    parser.add_argument(
        "--bind-file",
        action="append",
        default=[],
        metavar="FILE",
        help="NAME=value lines in dotenv syntax, up to 256 KiB; - reads standard input. Can be given again: a later "
        "file wins over an earlier one",
    )


def read_wanted(arguments: argparse.Namespace) -> dict[str, Any]:
    """What "configuration/plan" and "configuration/review" ask for. Raises `CommandFailed`, without any value."""
    if [arguments.file, *arguments.bind_file].count("-") > 1:
        raise CommandFailed(
            "Standard input can be read once: name a file for the document or for its bindings."
        )
    document = read_document(arguments.file)
    bindings: dict[str, str] = {}
    for file in arguments.bind_file:
        bindings |= _read_file(file)
    bindings |= _read_given(arguments.bind, os.environ)
    return {"project_id": arguments.project_id, "document": document, "bindings": bindings}


def _read_file(file: str) -> dict[str, str]:
    text = read_variables(file)
    # Only here: few documents are bound by files.
    from control_domain.variables.dotenv import read_dotenv
    from pipeline_contracts.errors import InvalidInput

    try:
        return read_dotenv(text)
    except InvalidInput as error:
        faults = "\n".join(f"{file}: {fault.message}" for fault in error.errors)
        raise CommandFailed(f"The bindings cannot be read.\n{faults}") from None


def _read_given(given: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    bindings = {}
    for text in given:
        name, equals, value = text.partition("=")
        # What is no name may be a value that has lost its name.
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
            raise CommandFailed(f"--bind {name}: the value is no text in UTF-8.") from None
        bindings[name] = value
    return bindings
