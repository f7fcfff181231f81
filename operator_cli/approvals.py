"""`pharos approvals`: what waits for a second person."""

import argparse
from typing import Any

from operator_cli.ask import WHICH, add_ask_arguments, ask
from operator_cli.tell import tell


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "approvals",
        help="show what waits for a second person",
        description="Deployments and changes of variables that wait for a second person. Of a deployment the commit, "
        "variables and workflow that it would run, and the digest of all three; of variables the names that "
        f"would be added, changed and removed, never a value. {WHICH} PHAROS_VARIABLES_KEY is needed for names then.",
    )
    add_ask_arguments(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    waiting = {name: ask(arguments, f"{name}/waiting") for name in ("deployments", "variables")}
    return tell(arguments, waiting, _show)


def _show(waiting: dict[str, Any]) -> None:
    from operator_cli.deployment_tables import show_approvals

    show_approvals(waiting["deployments"], waiting["variables"])
