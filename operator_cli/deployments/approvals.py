"""`pharos approvals`, `approve` and `reject`."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from operator_cli.api.client import open_api
from operator_cli.api.problems import ApiRefused
from operator_cli.arguments import add_client_arguments
from operator_cli.deployments.numbers import explaining_change, explaining_deployment
from operator_cli.errors import CommandFailed
from operator_cli.messages import describe_not_live, print_result, qualify_commands

_SECOND_PERSON: Final = (
    "The person of the token decides. This must be another person than the requester, and a "
    "maintainer of the project or an owner or admin of the account."
)
_PATHS: Final = {"deployment": "deployments", "variables": "variable-changes"}


def register_approvals(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "approvals",
        help="list pending approvals",
        description="Deployments and changes of variables that wait for a second person. A deployment is listed with "
        "the commit, variables and workflow that it would run, and the digest of all its inputs; a change of "
        "variables with the names that it adds, changes and removes, never with a value. --quiet "
        "prints the arguments of `pharos approve`, such as `deployment 7`.",
    )
    add_client_arguments(parser)
    parser.set_defaults(run=_list)


def _list(arguments: argparse.Namespace) -> int:
    waiting = open_api(arguments).get_all("approvals")
    if arguments.quiet:
        # Deployments and changes of variables may have the same number.
        waiting = [
            {"id": f"variables {each['variable_change']['id']}"}
            if each["deployment"] is None
            else {"id": f"deployment {each['deployment']['deployment']['id']}"}
            for each in waiting
        ]
    return print_result(arguments, waiting, lambda rows: _show_list(arguments, rows))


def _show_list(arguments: argparse.Namespace, waiting: list[dict[str, Any]]) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.deployments.tables import show_approvals

    show_approvals(arguments, waiting)


def register_approve(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "approve",
        help="approve a deployment or a change of variables",
        description="Approve a deployment or a change of variables that `pharos approvals` shows. "
        f"{_SECOND_PERSON}",
    )
    # An attribute of `CommandParser`.
    parser.verbs_take_numbers = True  # type: ignore[attr-defined]
    kinds = parser.add_subparsers(title="what", metavar="WHAT", required=True, dest="kind")
    deployment = kinds.add_parser(
        "deployment",
        help="queue a deployment that waits",
        description="Queue a deployment, bound to its commit, its variables and its workflow, as `pharos approvals` "
        f"shows them. If one of them changes later, the deployment waits for another approval. {_SECOND_PERSON}",
    )
    deployment.add_argument("id", type=int, metavar="DEPLOYMENT", help="the number of the deployment")
    deployment.add_argument(
        "--revision",
        metavar="SHA",
        help="full commit ID (40 or 64 digits); required if `pharos approvals` shows no commit",
    )
    deployment.add_argument(
        "--digest",
        metavar="DIGEST",
        help="digest that `pharos approvals` prints; required if something changed after the request",
    )
    variables = kinds.add_parser(
        "variables",
        help="apply a change of variables that waits",
        description=f"Apply a change of variables, from the next deployment on. {_SECOND_PERSON}",
    )
    variables.add_argument("id", type=int, metavar="CHANGE", help="the change's number")
    for kind in (deployment, variables):
        add_client_arguments(kind)
        kind.set_defaults(run=_approve)


def _approve(arguments: argparse.Namespace) -> int:
    body = None
    if arguments.kind == "deployment":
        body = {"revision": arguments.revision, "digest": arguments.digest}
    with _explaining(arguments.kind, arguments.id):
        approved = open_api(arguments).post(_PATHS[arguments.kind], arguments.id, "approve", body=body)
    show = _show_approved_deployment if arguments.kind == "deployment" else _show_approved_change
    return print_result(arguments, approved, show)


@contextmanager
def _explaining(kind: str, number: int) -> Iterator[None]:
    """Add the next step to a refusal of a decision."""
    try:
        with explaining_deployment(number) if kind == "deployment" else explaining_change(number):
            yield
    except ApiRefused as error:
        if error.slug != "second-person-required":
            raise
        own = f" `pharos cancel {number}` cancels your own deployment." if kind == "deployment" else ""
        raise CommandFailed(
            f"{error} That person runs this command with a token of their own.{own}"
        ) from None


def _show_approved_deployment(deployment: dict[str, Any]) -> None:
    number = deployment["id"]
    print(
        qualify_commands(
            f"Deployment {number} is approved and {deployment['status']}: commit {deployment['revision']}. "
            f"`pharos logs -f {number}` follows it."
        )
    )


def _show_approved_change(change: dict[str, Any]) -> None:
    path = f"{change['project']['slug']}/{change['environment']['slug']}"
    is_live = change["kind"] == "unprotect"
    print(
        f"Change {change['id']} of {path} is applied. {'' if is_live else describe_not_live(path)}".rstrip()
    )


def register_reject(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "reject",
        help="reject a deployment or a change of variables",
        description="Reject a deployment or a change of variables that `pharos approvals` shows. "
        f"{_SECOND_PERSON} The person who requested a deployment cancels it with `pharos cancel` instead.",
    )
    parser.verbs_take_numbers = True  # type: ignore[attr-defined]
    kinds = parser.add_subparsers(title="what", metavar="WHAT", required=True, dest="kind")
    for name, label, summary in (
        ("deployment", "DEPLOYMENT", "reject a deployment that waits"),
        ("variables", "CHANGE", "reject a change of variables that waits"),
    ):
        kind = kinds.add_parser(
            name, help=summary, description=f"{summary[0].upper()}{summary[1:]}. {_SECOND_PERSON}"
        )
        kind.add_argument("id", type=int, metavar=label, help="the number, as `pharos approvals` shows it")
        kind.add_argument("--reason", required=True, metavar="TEXT", help="the reason that others see")
        add_client_arguments(kind)
        kind.set_defaults(run=_reject)


def _reject(arguments: argparse.Namespace) -> int:
    path = (_PATHS[arguments.kind], arguments.id, "reject")
    with _explaining(arguments.kind, arguments.id):
        rejected = open_api(arguments).post(*path, body={"reason": arguments.reason})
    show = _show_rejected_deployment if arguments.kind == "deployment" else _show_rejected_change
    return print_result(arguments, rejected, show)


def _show_rejected_deployment(deployment: dict[str, Any]) -> None:
    print(f"Deployment {deployment['id']} is rejected.")


def _show_rejected_change(change: dict[str, Any]) -> None:
    print(f"Change {change['id']} of variables is rejected; the current variables stay.")
