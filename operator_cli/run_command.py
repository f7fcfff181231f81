"""Reads the arguments of `pharos` and runs one command."""

import argparse
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from operator_cli.errors import CommandFailed
from operator_cli.messages import qualify_commands
from operator_cli.paused_garbage_collector import paused_garbage_collector
from pipeline_contracts.settings import BadSettings

# The module with the `register_…` function of each command, and the command's summary. A module is imported only when
# its command runs: importing the whole platform takes over a second, and `pharos receipt` needs none of it.
COMMANDS = {
    "up": ("processes.up", "run the whole platform in this process"),
    "edge": ("processes.services", "run the ingest edge on Kafka and Redis"),
    "consumers": ("processes.services", "run the consumers from Kafka into ClickHouse"),
    "control": ("processes.services", "run the control plane on Postgres"),
    "deployer": ("processes.services", "run deployments on this machine"),
    "migrate": ("processes.migrate", "bring Kafka, ClickHouse and the database to this version"),
    "send": ("ingest.send", "ship event files and access logs"),
    "receipt": ("ingest.receipt", "show what became of an ingest batch"),
    "tail": ("telemetry.tail", "show the newest events"),
    "traces": ("telemetry.traces", "show the newest traces, or one of them as a tree"),
    "logs": ("telemetry.logs", "show the newest log records"),
    "issues": ("telemetry.issues", "show exceptions grouped into issues"),
    "query": ("telemetry.query", "query the column store in SQL"),
    "dead-letters": ("ingest.dead_letters", "list or replay records that could not be stored"),
    "keys": ("ingest.keys", "list, create or revoke ingest keys"),
    "heartbeat": (
        "monitors.heartbeat",
        "create, list, show, change, pause and remove heartbeats of scheduled jobs",
    ),
    "heartbeats": ("monitors.heartbeat", "show all heartbeats at a glance"),
    "queue": ("monitors.queue", "create, list, show and remove queues of jobs"),
    "queues": ("monitors.queue", "show all queues at a glance"),
    "site": (
        "sites.site",
        "create, list, show, change and remove websites that are measured, and their goals",
    ),
    "sites": ("sites.site", "show all sites at a glance"),
    "report": ("sites.report", "show who visits a site"),
    "run": ("monitors.run", "run a scheduled job, and report it to its heartbeat"),
    "account": ("accounts.account", "create, list and show accounts, and limit how fast they may send"),
    "person": ("accounts.person", "add people to an account, list them, change their roles, remove them"),
    "token": ("accounts.token", "list, create or revoke API tokens"),
    "project": ("projects.project", "create, list, show and remove projects, and set who may deploy them"),
    "environment": ("environments.environment", "create, list, show, change and remove environments"),
    "repository": (
        "repositories.repository",
        "connect projects to the Git repositories that they are deployed from",
    ),
    "webhooks": (
        "repositories.webhooks",
        "list deliveries of Git hosts, replay one, and list waiting pushes",
    ),
    "workflow": ("projects.workflow", "set, show and check how a project is built, released and run"),
    "config": ("configuration.config", "plan and apply the configuration of a project from a document"),
    "variables": (
        "environments.variables",
        "show and set the variables of environments, and rotate the key that seals them",
    ),
    "deploy": ("deployments.deploy", "deploy to an environment, and follow it until it is live"),
    "rollback": ("deployments.deploy", "make the release before the live one live again"),
    "promote": ("deployments.deploy", "deploy the release of one environment to a later one"),
    "preview": ("environments.preview", "open, list and close environments of branches"),
    "ps": ("environments.processes", "show what runs"),
    "deployments": ("deployments.deployments", "show the newest deployments"),
    "cancel": ("deployments.deployments", "cancel a deployment"),
    "approvals": ("deployments.approvals", "show what waits for a second person"),
    "approve": ("deployments.approvals", "approve a deployment or variables that wait for a second person"),
    "reject": ("deployments.approvals", "reject a deployment or variables that wait for a second person"),
    "lock": ("environments.environment", "block deployments to an environment"),
    "unlock": ("environments.environment", "allow deployments to an environment again"),
    "audit": ("accounts.audit", "show who changed what, when and from where"),
    "settings": ("settings", "list all PHAROS_* variables"),
}
# Commands that use status 2 for another result: they return EX_USAGE for wrong arguments and settings.
_USES_STATUS_2 = frozenset({"config"})


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
    """Return the parser of `pharos` with the arguments of `command`, or with the names of all commands for None."""
    # argparse creates the parsers of commands and actions from the same class.
    make = _Parser if command in _USES_STATUS_2 else argparse.ArgumentParser
    parser = make(
        prog="pharos",
        description="Deploys applications, takes in their telemetry, watches their jobs and measures their sites.",
    )
    parser.add_argument(
        "--version", action=_ShowVersion, nargs=0, help="show program's version number and exit"
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, (module, summary) in COMMANDS.items():
        if name == command:
            imported = importlib.import_module(f"operator_cli.{module}")
            getattr(imported, f"register_{name.replace('-', '_')}")(commands)
        elif command is None:
            commands.add_parser(name, help=summary)
    return parser


def run_command(on_parsed: Callable[[], None]) -> NoReturn:
    """Run the command that `sys.argv` names, and exit; `on_parsed` is called just before the command runs.

    Exit status 0: done, 1: failed, 2 (of `config` 64): wrong arguments or settings, 130: interrupted.
    """
    chosen = sys.argv[1] if len(sys.argv) > 1 and sys.argv[1] in COMMANDS else None
    try:
        with paused_garbage_collector():
            parser = build_parser(chosen)
        arguments = parser.parse_args()
        on_parsed()
        status = arguments.run(arguments)
    except BadSettings as error:
        print(qualify_commands(f"pharos: bad settings\n{error}"), file=sys.stderr)
        status = os.EX_USAGE if chosen in _USES_STATUS_2 else 2
    except CommandFailed as error:
        print(qualify_commands(f"pharos: {error}"), file=sys.stderr)
        status = 1
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:
        # `pharos tail | head` ends this way; an error message would have no reader.
        sys.stderr.close()
        status = 0
    sys.exit(status)
