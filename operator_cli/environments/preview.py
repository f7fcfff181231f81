"""`pharos preview open|list|close`: environments of branches."""

import argparse
from collections.abc import Sequence
from typing import Any

from operator_cli.api.choose import choose
from operator_cli.api.client import Api, open_api
from operator_cli.api.default_environment import Effect
from operator_cli.api.names import (
    Environment,
    Row,
    list_projects,
    resolve_environment,
    resolve_project,
)
from operator_cli.arguments import add_project_argument, add_verbs, add_yes_argument, complete, confirm
from operator_cli.deployments.follow import add_queueing_arguments, report_queued
from operator_cli.messages import print_result

_VERBS = {
    "open": "create the preview of a branch, or deploy it again, and follow the deployment until it is live",
    "list": "show the previews with their addresses",
    "close": "remove a preview with its processes; deployments that are queued or being built are canceled",
}


def register_preview(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "preview",
        help="environments of branches",
        description="Previews: environments of type preview, each for one branch. They hibernate and wake at the first "
        "request.",
    )
    add_verbs(parser, _VERBS, _run, _add_arguments)


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    match verb:
        case "open":
            parser.add_argument("branch", metavar="BRANCH", help="the branch to deploy")
            add_project_argument(parser, dest="project")
            source = parser.add_argument(
                "--from",
                metavar="ENVIRONMENT",
                dest="source",
                help="copy the variables that this environment of the project has now, except protected ones "
                "(`pharos variables protect`)",
            )
            complete(source, "environment")
            add_queueing_arguments(parser)
        case "list":
            add_project_argument(parser, "only of this project", dest="project")
        case "close":
            preview = parser.add_argument(
                "preview",
                metavar="PREVIEW",
                help="the preview: its branch, its name (preview-login, or shop/preview-login) or ID",
            )
            complete(preview, "environment")
            add_project_argument(
                parser, "required if several projects have a preview of the branch", dest="project"
            )
            add_yes_argument(parser)


def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    match arguments.verb:
        case "open":
            return _open(api, arguments)
        case "list":
            return print_result(arguments, _list(api, arguments.project), _show)
    preview = choose(
        _list(api, arguments.project),
        arguments.preview,
        noun="preview",
        keys=_keys,
        label=lambda row: _keys(row)[1],
    )
    path = _keys(preview)[1]
    of_branch = f" of the branch {preview['branch']}" if preview["branch"] else ""
    if not confirm(arguments, f"close the preview {path}{of_branch} and end its processes"):
        return 1
    removed = api.delete("projects", preview["project"]["id"], "previews", preview["id"])
    return print_result(
        arguments,
        removed,
        lambda _: print(f"The preview {path} is closed. Its deployments are still listed."),
    )


def _open(api: Api, arguments: argparse.Namespace) -> int:
    source = _find_source(api, arguments)
    if source is not None and arguments.project is None:
        project = source.project
    else:
        project = resolve_project(api, arguments.project, effect=Effect.ADDS)
    body = {"branch": arguments.branch, "variables_from": None if source is None else source.id}
    opened = api.post("projects", project.id, "previews", body=body)
    return report_queued(api, arguments, opened["deployment"])


def _find_source(api: Api, arguments: argparse.Namespace) -> Environment | None:
    if arguments.source is None:
        return None
    project = None if "/" in arguments.source else arguments.project
    return resolve_environment(api, arguments.source, project, option="--from ", effect=Effect.ADDS)


def _list(api: Api, project: str | None) -> list[dict[str, Any]]:
    return [
        preview
        for each in list_projects(api, project)
        for preview in api.get_all("projects", each.id, "previews")
    ]


def _keys(preview: Row) -> Sequence[str]:
    path = f"{preview['project']['slug']}/{preview['slug']}"
    return preview["id"], path, preview["slug"], preview["branch"] or "", str(preview["number"])


def _show(previews: list[dict[str, Any]]) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.environments.runtime_tables import show_previews

    show_previews(previews)
