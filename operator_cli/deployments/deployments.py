"""Commands `pharos deployments` and `cancel`."""

import argparse
from typing import Any

from operator_cli.arguments import add_project_argument, add_yes_argument, confirm
from operator_cli.control_client import WHICH_INSTALLATION, add_data_and_json_arguments, request_action
from operator_cli.messages import print_result

_MAX_COUNT = 1000


def register_deployments(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "deployments",
        help="show the newest deployments",
        description=f"The newest deployments, with the trigger and the person who asked for each. {WHICH_INSTALLATION}",
    )
    parser.add_argument(
        "--environment",
        metavar="ENVIRONMENT",
        help="to this one only: env_…, its number, slug, or PROJECT/SLUG",
    )
    add_project_argument(parser, "of this project only: prj_…, its number or slug")
    parser.add_argument(
        "-n", "--limit", type=_parse_count, default=20, metavar="N", help=f"how many (20; 1 to {_MAX_COUNT})"
    )
    add_data_and_json_arguments(parser)
    parser.set_defaults(run=_list)


def _parse_count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MAX_COUNT:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and {_MAX_COUNT}")
    return int(text)


def _list(arguments: argparse.Namespace) -> int:
    params = {
        "environment_id": arguments.environment,
        "project_id": arguments.project_id,
        "limit": arguments.limit,
    }
    return print_result(arguments, request_action(arguments, "deployments/list", params), _show_list)


def _show_list(deployments: list[dict[str, Any]]) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.deployments.tables import show_deployments

    show_deployments(deployments)


def register_cancel(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "cancel",
        help="cancel a deployment",
        description="Cancel a deployment that is queued, waits for approval or is being built. Once traffic switches "
        f"to its release, it runs to its end. {WHICH_INSTALLATION}",
    )
    parser.add_argument("id", type=int, metavar="DEPLOYMENT", help="its number")
    add_yes_argument(parser)
    add_data_and_json_arguments(parser)
    parser.set_defaults(run=_cancel)


def _cancel(arguments: argparse.Namespace) -> int:
    if not confirm(arguments, f"cancel deployment {arguments.id}"):
        return 1
    return print_result(
        arguments, request_action(arguments, "deployments/cancel", {"id": arguments.id}), _show_canceled
    )


def _show_canceled(result: dict[str, Any]) -> None:
    print(f"Deployment {result['id']} is canceled.")
