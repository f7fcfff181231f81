"""`pharos approve deployment|variables`: a second person agrees."""

import argparse
from typing import Any

from operator_cli.ask import WHICH, add_ask_arguments, ask
from operator_cli.tell import tell
from operator_cli.variables import not_live


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "approve",
        help="agree to a deployment or to variables that wait",
        description="A second person agrees to what waits: somebody else than who asked for it, who is a maintainer of "
        f"the project, or an owner or admin of its account. `pharos approvals` shows what waits. {WHICH}",
    )
    kinds = parser.add_subparsers(title="what", metavar="WHAT", required=True)
    deployment = kinds.add_parser(
        "deployment",
        help="queue a deployment",
        description="Queue a deployment, bound to its commit, its variables and its workflow, as `pharos approvals` "
        "shows them. If one of them changes later, the deployment waits for another approval.",
    )
    deployment.add_argument("id", type=int, metavar="DEPLOYMENT", help="its number")
    deployment.add_argument(
        "--revision",
        metavar="SHA",
        help="full commit ID (40 or 64 digits); required where `pharos approvals` shows no commit",
    )
    deployment.add_argument(
        "--digest",
        metavar="DIGEST",
        help="digest that `pharos approvals` prints; required if something changed after the request",
    )
    variables = kinds.add_parser(
        "variables",
        help="let new variables count",
        description="Let a change of variables count from the next release on.",
    )
    variables.add_argument("id", type=int, metavar="CHANGE", help="the change's number")
    for name, kind in (("deployment", deployment), ("variables", variables)):
        kind.add_argument("--by", required=True, metavar="EMAIL", help="who agrees")
        add_ask_arguments(kind)
        kind.set_defaults(run=_run, kind=name)


def _run(arguments: argparse.Namespace) -> int:
    wanted = {"id": arguments.id, "by": arguments.by}
    if arguments.kind == "deployment":
        wanted |= {"revision": arguments.revision, "digest": arguments.digest}
        return tell(arguments, ask(arguments, "deployments/approve", wanted), _show_deployment)
    return tell(arguments, ask(arguments, "variables/approve", wanted), _show_variables)


def _show_deployment(told: dict[str, Any]) -> None:
    from operator_cli.deployment_tables import tell_inputs

    print(f"Deployment {told['id']} is approved and {told['status']}: commit {told['revision']}.")
    for name, value in tell_inputs(told):
        print(f"  {name}: {value}")


def _show_variables(told: dict[str, Any]) -> None:
    called, count = f"{told['project']}/{told['environment']}", told["count"]
    print(f"Change {told['id']} is applied: {called} has {count} variables. {not_live(called)}")
