"""Command `pharos preview`: environments of branches."""

import argparse
from typing import Any

from operator_cli.arguments import (
    add_approval_arguments,
    add_project_argument,
    add_subcommands,
    add_yes_argument,
    confirm,
    read_approval_arguments,
)
from operator_cli.control_client import WHICH_INSTALLATION, request_action
from operator_cli.deployments.follow import add_queueing_arguments, queue_and_follow
from operator_cli.messages import print_result

_SUBCOMMANDS = {
    "open": "create the preview of a branch, or deploy it again, and follow that until it is live",
    "list": "show the previews with their addresses",
    "close": "remove a preview with its processes; deployments that are queued or being built are canceled",
}


def register_preview(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "preview",
        help="open, list and close environments of branches",
        description="Previews: environments of type preview, each for one branch. They hibernate and wake at the first "
        f"request. {WHICH_INSTALLATION}",
    )
    add_subcommands(parser, _SUBCOMMANDS, _run, _add_arguments)


def _add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    match name:
        case "open":
            parser.add_argument("branch", metavar="BRANCH", help="the branch to deploy")
            add_project_argument(parser, "prj_…, its number or slug; may be left out where there is only one")
            parser.add_argument(
                "--from",
                metavar="ENVIRONMENT",
                dest="source",
                help="copy the variables that this environment of the project has now, except protected ones "
                "(`pharos variables protect`)",
            )
            add_queueing_arguments(parser)
        case "list":
            add_project_argument(parser, "of this project only: prj_…, its number or slug")
        case "close":
            parser.add_argument(
                "preview",
                metavar="ENVIRONMENT|BRANCH",
                help="env_…, its number, slug, PROJECT/SLUG, or its branch",
            )
            add_project_argument(
                parser, "where several have a preview of the branch: prj_…, its number or slug"
            )
            add_approval_arguments(parser)
            add_yes_argument(parser)


def _run(arguments: argparse.Namespace) -> int:
    project = {"project_id": arguments.project_id}
    match arguments.subcommand:
        case "open":
            params = {**project, "branch": arguments.branch, "from": arguments.source}
            return queue_and_follow(arguments, "previews/open", params)
        case "list":
            return print_result(arguments, request_action(arguments, "previews/list", project), _show)
    if not confirm(arguments, f"close the preview {arguments.preview} and end its processes"):
        return 1
    params = {**project, "what": arguments.preview, **read_approval_arguments(arguments)}
    return print_result(arguments, request_action(arguments, "previews/close", params), _show_closed)


def _show(previews: list[dict[str, Any]]) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.environments.runtime_tables import show_previews

    show_previews(previews)


def _show_closed(result: dict[str, Any]) -> None:
    print(f"The preview {result['project']}/{result['slug']} is closed. Its deployments are still listed.")
