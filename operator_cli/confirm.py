"""Asks a person before something is destroyed or cut off."""

import argparse
import sys

from operator_cli.failure import CommandFailed


def add_yes_argument(parser: argparse.ArgumentParser) -> None:
    """`--yes`."""
    parser.add_argument("--yes", action="store_true", help="do not ask first; needed without a terminal")


def confirmed(arguments: argparse.Namespace, what: str) -> bool:
    """Whether to go on: `--yes` was given, or somebody at the terminal has typed yes.

    `what` says what comes of it, as in "remove project 3 and its deployments". Where it gives False, it has told that
    nothing was changed; the command then ends with 1. Raises `CommandFailed` where nobody can be asked.
    """
    if arguments.yes:
        return True
    if sys.stdin is None or not sys.stdin.isatty():
        raise CommandFailed(f"Without a terminal nobody can be asked whether to {what}: add --yes to do it.")
    # On stderr: what is printed for programs stays clean.
    print(f"This will {what}. Type yes to go on: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() == "yes":
        return True
    print("Nothing was changed.", file=sys.stderr)
    return False
