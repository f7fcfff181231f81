"""`pharos ps`: what runs, and where."""

import argparse
from typing import Any

from operator_cli.ask import WHICH, add_ask_arguments, ask
from operator_cli.deploy import add_optional_place
from operator_cli.tell import tell


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "ps",
        help="show what runs",
        description="Environments that have a live release or anything that runs: where each answers, what is live "
        f"there, and its processes as their deployer last saw them. {WHICH}",
    )
    add_optional_place(parser, "show this one only: env_…, its number, its slug, or PROJECT/SLUG")
    add_ask_arguments(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    return tell(arguments, ask(arguments, "runtime/list", {"environment_id": arguments.environment}), _show)


def _show(environments: list[dict[str, Any]]) -> None:
    # Only here: a program that asks for JSON need not wait for what draws tables.
    from operator_cli.runtime_tables import show_runtime

    show_runtime(environments)
