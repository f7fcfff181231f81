"""Arguments that several commands share, and the question before a command destroys something.

A command of the API begins with `add_verbs` (`pharos NOUN VERB [NAME] [--flags]`), or with `add_client_arguments` if
it has no verbs; `operator_cli.api` describes the rest.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from operator_cli.errors import CommandFailed

ON_OFF: Final = {"on": True, "off": False}
"""The words for a setting that is on or off, and the values that are sent for them."""


def add_verbs(
    parser: argparse.ArgumentParser,
    summaries: Mapping[str, str],
    run: Callable[[argparse.Namespace], int],
    add_arguments: Callable[[argparse.ArgumentParser, str], None],
    descriptions: Mapping[str, str] | None = None,
    default: str | None = None,
) -> None:
    """Add a subcommand for each verb in `summaries`, with the arguments of `add_arguments(parser, verb)` and
    `add_client_arguments`.

    `run` finds the verb in `arguments.verb`. `descriptions` has more sentences for the help of a verb. The verb
    `default` may be left out: `pharos traces -n 5` is `pharos traces list -n 5`.
    """
    # An attribute of `CommandParser`.
    parser.default_verb = default  # type: ignore[attr-defined]
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True, dest="verb")
    for verb, summary in summaries.items():
        more = (descriptions or {}).get(verb, "")
        description = f"{summary[0].upper()}{summary[1:]}. {more}".rstrip()
        subcommand = verbs.add_parser(verb, help=summary, description=description)
        add_arguments(subcommand, verb)
        add_client_arguments(subcommand)
        subcommand.set_defaults(run=run)


def add_client_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of every command of the API: `--profile` and `--data`, `--json`, `--quiet` and `--wide`."""
    installation = parser.add_argument_group("installation")
    complete(
        installation.add_argument("--profile", metavar="NAME", help="use this profile of `pharos login`"),
        "profile",
    )
    installation.add_argument(
        "--data", type=Path, metavar="DIR", help="use the running `pharos up` of this folder"
    )
    add_output_arguments(parser)


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--json`, `--quiet` and `--wide`."""
    output = parser.add_argument_group("output")
    forms = output.add_mutually_exclusive_group()
    forms.add_argument("--json", action="store_true", help="print the data of the response as JSON")
    forms.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        help="print IDs only, one per line; for a new key, print the key",
    )
    forms.add_argument(
        "--wide", action="store_true", help="print tables in full, even if they are wider than the terminal"
    )


def complete(action: argparse.Action, kind: str) -> argparse.Action:
    """Make shells complete the value of an argument with the names of this kind (`project`, `environment`, `person`,
    `profile`), or with paths for `file`. Returns the argument."""
    action.completes = kind  # type: ignore[attr-defined]
    return action


def add_environment_argument(parser: argparse.ArgumentParser) -> None:
    """Add the required `ENVIRONMENT`."""
    environment = parser.add_argument(
        "environment", metavar="ENVIRONMENT", help="the environment: production, shop/production or an ID"
    )
    complete(environment, "environment")


def add_optional_environment_argument(
    parser: argparse.ArgumentParser,
    help_: str = "the environment: production, shop/production or an ID; by default "
    "PHAROS_DEFAULT_ENVIRONMENT, or the only one",
) -> None:
    """Add an `ENVIRONMENT` that may be left out."""
    environment = parser.add_argument("environment", nargs="?", metavar="ENVIRONMENT", help=help_)
    complete(environment, "environment")


def add_project_argument(
    parser: argparse.ArgumentParser,
    help_: str = "the project: its name or ID; by default that of PHAROS_DEFAULT_ENVIRONMENT, or the only one",
    dest: str = "project_id",
) -> None:
    """Add `--project`."""
    complete(parser.add_argument("--project", metavar="PROJECT", help=help_, dest=dest), "project")


def add_account_argument(parser: argparse.ArgumentParser, *, is_filter: bool) -> None:
    """Add `--account`, which a filter may always leave out."""
    left_out = "by default all" if is_filter else "by default the only one"
    parser.add_argument(
        "--account", metavar="ID", dest="account_id", help=f"number, acc_… or slug; {left_out}"
    )


def add_yes_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--yes`."""
    parser.add_argument("--yes", action="store_true", help="do not ask first; needed without a terminal")


def confirm(arguments: argparse.Namespace, consequence: str) -> bool:
    """Return True if `--yes` was given or the person at the terminal types yes.

    `consequence` is a verb phrase: "remove project 3 and its deployments". On another reply, print that nothing was
    changed; the command then exits with status 1. Raises `CommandFailed` if there is no terminal and no `--yes`.
    """
    if arguments.yes:
        return True
    if sys.stdin is None or not sys.stdin.isatty():
        raise CommandFailed(
            f"Without a terminal, pharos cannot ask whether to {consequence}: add --yes to do it."
        )
    # Print on stderr, so that stdout has only the output for programs.
    print(f"This will {consequence}. Type yes to go on: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() == "yes":
        return True
    print("Nothing was changed.", file=sys.stderr)
    return False
