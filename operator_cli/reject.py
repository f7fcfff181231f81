"""`pharos reject deployment|variables`: a second person does not agree."""

import argparse
from typing import Any

from operator_cli.ask import WHICH, add_ask_arguments, ask
from operator_cli.tell import tell


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "reject",
        help="turn down a deployment or variables that wait",
        description="A second person does not agree to what waits, and it ends: somebody else than who asked for it, "
        f"who is a maintainer of the project, or an owner or admin of its account. {WHICH}",
    )
    kinds = parser.add_subparsers(title="what", metavar="WHAT", required=True)
    for name, label, summary in (
        ("deployment", "DEPLOYMENT", "end a deployment that waits"),
        ("variables", "CHANGE", "turn a change of variables down"),
    ):
        kind = kinds.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        kind.add_argument("id", type=int, metavar=label, help="its number, as `pharos approvals` shows it")
        kind.add_argument("--by", required=True, metavar="EMAIL", help="who decides")
        kind.add_argument("--reason", required=True, metavar="TEXT", help="what others are told")
        add_ask_arguments(kind)
        kind.set_defaults(run=_run, kind=name)


def _run(arguments: argparse.Namespace) -> int:
    wanted = {"id": arguments.id, "by": arguments.by, "reason": arguments.reason}
    if arguments.kind == "deployment":
        return tell(arguments, ask(arguments, "deployments/reject", wanted), _show_deployment)
    return tell(arguments, ask(arguments, "variables/reject", wanted), _show_variables)


def _show_deployment(told: dict[str, Any]) -> None:
    print(f"Deployment {told['id']} is rejected.")


def _show_variables(told: dict[str, Any]) -> None:
    print(f"Change {told['id']} of variables is rejected; those that are set stay.")
