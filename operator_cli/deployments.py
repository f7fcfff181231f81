"""`pharos deployments`: the newest deployments."""

import argparse
from typing import Any

from operator_cli.ask import WHICH, add_ask_arguments, ask
from operator_cli.environment import add_project_argument
from operator_cli.tell import tell

_MOST = 1000


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "deployments",
        help="show the newest deployments",
        description=f"The newest deployments, with what asked for each, and who did. {WHICH}",
    )
    parser.add_argument(
        "--environment",
        metavar="ENVIRONMENT",
        help="to this one only: env_…, its number, slug, or PROJECT/SLUG",
    )
    add_project_argument(parser, "of this project only: prj_…, its number or slug")
    parser.add_argument(
        "-n", "--limit", type=_count, default=20, metavar="N", help=f"how many (20; 1 to {_MOST})"
    )
    add_ask_arguments(parser)
    parser.set_defaults(run=_run)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MOST:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and {_MOST}")
    return int(text)


def _run(arguments: argparse.Namespace) -> int:
    wanted = {
        "environment_id": arguments.environment,
        "project_id": arguments.project_id,
        "limit": arguments.limit,
    }
    return tell(arguments, ask(arguments, "deployments/list", wanted), _show)


def _show(deployments: list[dict[str, Any]]) -> None:
    # Only here: a program that asks for JSON need not wait for what draws tables.
    from operator_cli.deployment_tables import show_deployments

    show_deployments(deployments)
