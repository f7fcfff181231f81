"""Builds the parser of one command only, because the parsers of other commands would import their modules."""

import argparse
import importlib
from collections.abc import Sequence
from typing import Any, NoReturn

from operator_cli.grammar.command_parser import CommandParser
from operator_cli.grammar.commands import COMMANDS, suggest_command
from operator_cli.grammar.overview import describe_commands


class _Overview(CommandParser):
    """The parser of `pharos` without a known command: its help is the list of commands."""

    def format_help(self) -> str:
        return describe_commands()

    def format_usage(self) -> str:
        return "usage: pharos COMMAND … [--flags]\n"

    def _suggest(self, _action: argparse.Action, value: str, _choices: Sequence[str]) -> str:
        return suggest_command(value)


class _ShowVersion(argparse.Action):
    """`--version`. Reads the version only when needed: `importlib.metadata` takes 30 ms to import."""

    def __call__(self, parser: argparse.ArgumentParser, *_arguments: Any) -> NoReturn:
        from importlib.metadata import version

        print(f"pharos {version('pharos')}")
        parser.exit()


def build_parser(command: str | None) -> CommandParser:
    """Return the parser of `pharos` with the arguments of `command`, or with the names of all commands for None."""
    parser = _Overview(prog="pharos") if command is None else _parser_class(command)(prog="pharos")
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    if command is None:
        for name in COMMANDS:
            commands.add_parser(name, add_help=False)
        return parser
    module = importlib.import_module(f"operator_cli.{COMMANDS[command].module}")
    getattr(module, f"register_{command.replace('-', '_')}")(commands)
    return parser


def _parser_class(command: str) -> type[CommandParser]:
    # argparse creates the parsers of commands and verbs from the class of the first parser.
    return type("CommandParser", (CommandParser,), {"usage_status": COMMANDS[command].usage_status})
