"""`pharos preview open|list|close`: environments of branches."""

import argparse
from typing import Any

from operator_cli.actions import add_actions
from operator_cli.ask import WHICH, ask
from operator_cli.confirm import add_yes_argument, confirmed
from operator_cli.environment import add_agreed_arguments, add_project_argument, read_agreed
from operator_cli.following import add_queueing_arguments, queue_and_follow
from operator_cli.tell import tell

_ACTIONS = {
    "open": "make the preview of a branch, or deploy it anew, and follow that until it is live",
    "list": "show the previews, and where each answers",
    "close": "remove a preview with all that runs there; what is queued or being built is canceled",
}


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "preview",
        help="open, list and close environments of branches",
        description="Previews: environments of type preview, each for one branch. They hibernate and wake at the first "
        f"request. {WHICH}",
    )
    add_actions(parser, _ACTIONS, _run, _add_arguments)


def _add_arguments(action: argparse.ArgumentParser, name: str) -> None:
    match name:
        case "open":
            action.add_argument("branch", metavar="BRANCH", help="what is deployed there")
            add_project_argument(action, "prj_…, its number or slug; may be left out where there is only one")
            action.add_argument(
                "--from",
                metavar="ENVIRONMENT",
                dest="source",
                help="give it the variables that this environment of the project has now, but for those that are "
                "protected (`pharos variables protect`)",
            )
            add_queueing_arguments(action)
        case "list":
            add_project_argument(action, "of this project only: prj_…, its number or slug")
        case "close":
            action.add_argument(
                "what",
                metavar="ENVIRONMENT|BRANCH",
                help="env_…, its number, slug, PROJECT/SLUG, or its branch",
            )
            add_project_argument(
                action, "where several have a preview of the branch: prj_…, its number or slug"
            )
            add_agreed_arguments(action)
            add_yes_argument(action)


def _run(arguments: argparse.Namespace) -> int:
    project = {"project_id": arguments.project_id}
    match arguments.action:
        case "open":
            wanted = {**project, "branch": arguments.branch, "from": arguments.source}
            return queue_and_follow(arguments, "previews/open", wanted)
        case "list":
            return tell(arguments, ask(arguments, "previews/list", project), _show)
    if not confirmed(arguments, f"close the preview {arguments.what} and end all that runs there"):
        return 1
    wanted = {**project, "what": arguments.what, **read_agreed(arguments)}
    return tell(arguments, ask(arguments, "previews/close", wanted), _tell_closed)


def _show(previews: list[dict[str, Any]]) -> None:
    # Only here: a program that asks for JSON need not wait for what draws tables.
    from operator_cli.runtime_tables import show_previews

    show_previews(previews)


def _tell_closed(told: dict[str, Any]) -> None:
    print(f"The preview {told['project']}/{told['slug']} is closed. Its deployments are still listed.")
