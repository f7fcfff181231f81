"""Reads the arguments of `pharos` and runs one command."""

import argparse
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from operator_cli.failure import CommandFailed
from operator_cli.paused_garbage_collector import paused_garbage_collector
from operator_cli.typed_commands import typed_commands
from pipeline_contracts.settings import BadSettings

# Each command is a module of the same name, imported on use: importing the whole platform takes over a second, and
# `pharos receipt` needs none of it.
_COMMANDS = {
    "up": "run the whole platform in this process",
    "edge": "run the ingest edge on Kafka and Redis",
    "consumers": "run the consumers from Kafka into ClickHouse",
    "control": "run the control plane on Postgres",
    "deployer": "carry out deployments on this machine",
    "migrate": "bring Kafka, ClickHouse and the database to this version",
    "send": "ship event files and access logs",
    "receipt": "show what became of an ingest batch",
    "tail": "show the newest events",
    "traces": "show the newest traces, or one of them as a tree",
    "logs": "show the newest log records",
    "issues": "show exceptions grouped into issues",
    "query": "ask the column store in SQL",
    "dead-letters": "list or replay records that could not be stored",
    "keys": "list, make or revoke ingest keys",
    "heartbeat": "make, list, show, change, pause and remove heartbeats of scheduled jobs",
    "heartbeats": "show all heartbeats at a glance",
    "queue": "make, list, show and remove queues of jobs",
    "queues": "show all queues at a glance",
    "site": "make, list, show, change and remove websites that are measured, and their goals",
    "sites": "show all sites at a glance",
    "report": "show who visits a site",
    "run": "run a scheduled job, and report it to its heartbeat",
    "account": "make, list and show accounts, and limit how fast they may send",
    "person": "let people into an account, list them, change their roles, take them out",
    "token": "list, make or revoke API tokens",
    "project": "make, list, show and remove projects, and say who may deploy them",
    "environment": "make, list, show, change and remove environments",
    "repository": "connect projects to the Git repositories that they are deployed from",
    "webhooks": "show what Git hosts have sent, run it again, and show what waits",
    "workflow": "set, show and check how a project is built, released and run",
    "config": "plan and apply how a project shall be, as a document",
    "variables": "show and set the variables of environments, and rotate the key that seals them",
    "deploy": "deploy to an environment, and follow it until it is live",
    "rollback": "make the release before the live one live again",
    "promote": "bring what one environment has to a later one",
    "preview": "open, list and close environments of branches",
    "ps": "show what runs",
    "deployments": "show the newest deployments",
    "cancel": "call a deployment off",
    "approvals": "show what waits for a second person",
    "approve": "agree to a deployment or to variables that wait",
    "reject": "turn down a deployment or variables that wait",
    "lock": "let nobody deploy to an environment",
    "unlock": "let people deploy to an environment again",
    "audit": "show who changed what, when and from where",
    "settings": "list all PHAROS_* variables",
}
# Commands that use status 2 for another result: they return EX_USAGE for wrong arguments and settings.
_TWO_IS_TAKEN = frozenset({"config"})


class _Parser(argparse.ArgumentParser):
    """The parser of the commands that return EX_USAGE."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(os.EX_USAGE, f"{self.prog}: error: {message}\n")


class _ShowVersion(argparse.Action):
    """`--version`. Reads the version only when it is asked for: `importlib.metadata` takes 30 ms to import."""

    def __call__(self, parser: argparse.ArgumentParser, *_arguments: Any) -> NoReturn:
        from importlib.metadata import version

        print(f"pharos {version('pharos')}")
        parser.exit()


def build_parser(command: str | None) -> argparse.ArgumentParser:
    """Return the parser of `pharos` with the arguments of one command, or with the names of all commands."""
    # argparse creates the parsers of commands and actions from the same class.
    make = _Parser if command in _TWO_IS_TAKEN else argparse.ArgumentParser
    parser = make(
        prog="pharos",
        description="Deploys applications, takes in their telemetry, watches their jobs and measures their sites.",
    )
    parser.add_argument(
        "--version", action=_ShowVersion, nargs=0, help="show program's version number and exit"
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, summary in _COMMANDS.items():
        if name == command:
            importlib.import_module(f"operator_cli.{name.replace('-', '_')}").register(commands)
        elif command is None:
            commands.add_parser(name, help=summary)
    return parser


def run_command(on_parsed: Callable[[], None]) -> NoReturn:
    """Run the command that `sys.argv` names, and exit; `on_parsed` is called just before the command runs.

    Exit status 0: done, 1: failed, 2 (of `config` 64): wrong arguments or settings, 130: interrupted.
    """
    chosen = sys.argv[1] if len(sys.argv) > 1 and sys.argv[1] in _COMMANDS else None
    try:
        with paused_garbage_collector():
            parser = build_parser(chosen)
        arguments = parser.parse_args()
        on_parsed()
        status = arguments.run(arguments)
    except BadSettings as error:
        print(typed_commands(f"pharos: bad settings\n{error}"), file=sys.stderr)
        status = os.EX_USAGE if chosen in _TWO_IS_TAKEN else 2
    except CommandFailed as error:
        print(typed_commands(f"pharos: {error}"), file=sys.stderr)
        status = 1
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:
        # `pharos tail | head` ends this way; an error message would have no reader.
        sys.stderr.close()
        status = 0
    sys.exit(status)
