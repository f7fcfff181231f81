"""Commands `pharos approvals`, `approve` and `reject`."""

import argparse
from typing import Any

from operator_cli.control_client import WHICH_INSTALLATION, add_data_and_json_arguments, request_action
from operator_cli.messages import describe_not_live, print_result


def register_approvals(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "approvals",
        help="show what waits for a second person",
        description="Deployments and changes of variables that wait for a second person. A deployment is listed with "
        "the commit, variables and workflow that it would run, and the digest of all its inputs; a change of "
        "variables with the names that it adds, changes and removes, never with a value. "
        f"{WHICH_INSTALLATION} In the first case it also needs PHAROS_VARIABLES_KEY, for the names.",
    )
    add_data_and_json_arguments(parser)
    parser.set_defaults(run=_list)


def _list(arguments: argparse.Namespace) -> int:
    waiting = {name: request_action(arguments, f"{name}/waiting") for name in ("deployments", "variables")}
    return print_result(arguments, waiting, _show_list)


def _show_list(waiting: dict[str, Any]) -> None:
    from operator_cli.deployments.tables import show_approvals

    show_approvals(waiting["deployments"], waiting["variables"])


def register_approve(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "approve",
        help="approve a deployment or variables that wait for a second person",
        description="Approve a deployment or a change of variables that `pharos approvals` shows. The second person "
        "is not the one who asked for it, and is a maintainer of the project, or an owner or admin of its account. "
        f"{WHICH_INSTALLATION}",
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
        help="apply a change of variables",
        description="Apply a change of variables, from the next release on.",
    )
    variables.add_argument("id", type=int, metavar="CHANGE", help="the change's number")
    for name, kind in (("deployment", deployment), ("variables", variables)):
        kind.add_argument("--by", required=True, metavar="EMAIL", help="the second person")
        add_data_and_json_arguments(kind)
        kind.set_defaults(run=_approve, kind=name)


def _approve(arguments: argparse.Namespace) -> int:
    params = {"id": arguments.id, "by": arguments.by}
    if arguments.kind == "deployment":
        params |= {"revision": arguments.revision, "digest": arguments.digest}
        return print_result(
            arguments, request_action(arguments, "deployments/approve", params), _show_approved_deployment
        )
    return print_result(
        arguments, request_action(arguments, "variables/approve", params), _show_approved_variables
    )


def _show_approved_deployment(result: dict[str, Any]) -> None:
    from operator_cli.deployments.tables import list_approval_inputs

    print(f"Deployment {result['id']} is approved and {result['status']}: commit {result['revision']}.")
    for name, value in list_approval_inputs(result):
        print(f"  {name}: {value}")


def _show_approved_variables(result: dict[str, Any]) -> None:
    path, count = f"{result['project']}/{result['environment']}", result["count"]
    print(f"Change {result['id']} is applied: {path} has {count} variables. {describe_not_live(path)}")


def register_reject(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "reject",
        help="reject a deployment or variables that wait for a second person",
        description="Reject a deployment or a change of variables that `pharos approvals` shows. The second person "
        "is not the one who asked for it, and is a maintainer of the project, or an owner or admin of its account. "
        f"{WHICH_INSTALLATION}",
    )
    kinds = parser.add_subparsers(title="what", metavar="WHAT", required=True)
    for name, label, summary in (
        ("deployment", "DEPLOYMENT", "reject a deployment that waits"),
        ("variables", "CHANGE", "reject a change of variables"),
    ):
        kind = kinds.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        kind.add_argument("id", type=int, metavar=label, help="its number, as `pharos approvals` shows it")
        kind.add_argument("--by", required=True, metavar="EMAIL", help="the second person")
        kind.add_argument("--reason", required=True, metavar="TEXT", help="the reason that others see")
        add_data_and_json_arguments(kind)
        kind.set_defaults(run=_reject, kind=name)


def _reject(arguments: argparse.Namespace) -> int:
    params = {"id": arguments.id, "by": arguments.by, "reason": arguments.reason}
    if arguments.kind == "deployment":
        return print_result(
            arguments, request_action(arguments, "deployments/reject", params), _show_rejected_deployment
        )
    return print_result(
        arguments, request_action(arguments, "variables/reject", params), _show_rejected_variables
    )


def _show_rejected_deployment(result: dict[str, Any]) -> None:
    print(f"Deployment {result['id']} is rejected.")


def _show_rejected_variables(result: dict[str, Any]) -> None:
    print(f"Change {result['id']} of variables is rejected; the current variables stay.")
