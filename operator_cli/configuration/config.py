"""`pharos config …`: the configuration of a project as a document."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from operator_cli.api.client import Api, open_api
from operator_cli.api.default_environment import Effect
from operator_cli.api.names import Project, list_projects, request_first, resolve_project
from operator_cli.arguments import add_project_argument, add_verbs, add_yes_argument
from operator_cli.configuration.document_arguments import (
    add_bindings,
    add_file_argument,
    explaining_faults,
    read_document_body,
)
from operator_cli.errors import CommandFailed, NoSuchName
from operator_cli.messages import print_result
from operator_cli.terminal_text import sanitize

HAS_CHANGES = 2
"""Exit status of a plan that changes something."""
_MAX_APPLICATIONS = 50
_VERBS = {
    "plan": "show what a document would change, without changing anything",
    "apply": "show what a document would change, ask, and apply it",
    "export": "print the current configuration of a project as a document, without the values of variables",
    "applications": "list when documents were applied, the newest first",
    "show": "show what happened when a document was applied: the status of each operation",
    "cancel": "cancel an operation that has not begun",
    "retry": "retry an operation that has failed or was canceled",
    "schema": "print the JSON Schema of configuration or workflow documents, for editors",
}
_DESCRIPTIONS = {
    "plan": "Exit status 0: nothing changes; 1: planning failed, with the reason on stderr; 2: something changes; 64: "
    "wrong arguments or settings. Values of variables are never shown: the digits after ••• distinguish them.",
    "apply": "Nothing is stored until you agree or give --yes. Then the plan is stored as a review and applied; if the "
    "project has changed since the plan was shown, nothing is applied. "
    "Operations run in order, each as a whole or not at all; after a failed one the others wait. If the plan lowers "
    "approvals or a deploy window, a second person applies the review with --review. Exit status 0: the project "
    "matches the document; 1: it does not; 3: a second person has to apply the review; 64: wrong arguments or "
    "settings; 130: Ctrl-C, which stops the output but not the application. With --json the plan goes to stderr if "
    "you are asked, and stdout is the finished application, null if nothing changes, and the review if a second "
    "person has to apply it.",
    "export": "Planning the exported document changes nothing.",
    "cancel": "The operation is skipped, and the operations after it run.",
    "retry": "The operations after it run then.",
}


def register_config(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "config",
        help="plan and apply a project's configuration document",
        description="Configuration documents: the desired state of a project, its environments, monitors and sites. "
        "A document leaves unchanged what it does not mention.",
    )
    add_verbs(parser, _VERBS, _run, _add_arguments, _DESCRIPTIONS)


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    match verb:
        case "plan":
            add_file_argument(parser)
            add_project_argument(parser, dest="project")
            add_bindings(parser)
        case "apply":
            add_file_argument(parser, is_optional=True)
            add_project_argument(parser, dest="project")
            add_bindings(parser)
            parser.add_argument(
                "--review",
                type=int,
                metavar="REVIEW",
                help="apply this review, which another person has made",
            )
            add_yes_argument(parser)
        case "export":
            add_project_argument(parser, dest="project")
            parser.add_argument(
                "-o",
                "--output",
                metavar="FILE",
                help="write the document to this file instead of standard output",
            )
            parser.add_argument("--force", action="store_true", help="overwrite FILE")
        case "applications":
            add_project_argument(parser, "only of this project", dest="project")
        case "schema":
            kinds = ("configuration", "workflow")
            parser.add_argument("kind", nargs="?", choices=kinds, default=kinds[0], help=f"({kinds[0]})")
        case _:
            parser.add_argument(
                "application",
                type=int,
                metavar="APPLICATION",
                help="the number, as `pharos config applications` shows it",
            )
            if verb != "show":
                parser.add_argument(
                    "operation",
                    type=int,
                    metavar="OPERATION",
                    help="the number of the operation in `pharos config show`",
                )
            add_project_argument(
                parser, "the project of the application (found by its number)", dest="project"
            )


def _run(arguments: argparse.Namespace) -> int:
    try:
        status = _RUNNERS[arguments.verb](arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Not 0, because 0 means that the plan changes nothing.
        sys.stderr.close()
        return 1
    return status


def _plan(arguments: argparse.Namespace) -> int:
    body = read_document_body(arguments)
    api = open_api(arguments)
    project = resolve_project(api, arguments.project, effect=Effect.READS)
    with explaining_faults(arguments.file):
        plan = api.post("projects", project.id, "configuration", "plan", body=body)
    print_result(arguments, plan, lambda found: _show_plan(project, found))
    return HAS_CHANGES if plan["actions"] else 0


def _apply(arguments: argparse.Namespace) -> int:
    # Imported here: no other verb needs it.
    from operator_cli.configuration.apply import apply_configuration

    return apply_configuration(arguments)


def _export(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    project = resolve_project(api, arguments.project, effect=Effect.READS)
    exported = api.get("projects", project.id, "configuration")
    document = exported["document"]
    if arguments.output is not None:
        _write(arguments.output, document, may_overwrite=arguments.force)
    if exported["fault"] is not None:
        print(
            f"pharos: This document cannot be planned as it is: {sanitize(exported['fault'])}. Split it into several "
            "documents: each leaves unchanged what it does not mention.",
            file=sys.stderr,
        )
    if arguments.json or arguments.output is None:
        return print_result(arguments, exported, lambda _: print(document, end=""))
    print(f"{arguments.output} is the document of {project.slug}.")
    return 0


def _write(file: str, document: str, *, may_overwrite: bool) -> None:
    mode = os.O_TRUNC if may_overwrite else os.O_EXCL
    try:
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | mode, 0o644)
        with open(opened, "wb") as output:
            output.write(document.encode())
    except FileExistsError:
        raise CommandFailed(
            f"{file} exists already: name another file, or overwrite it with --force."
        ) from None
    except OSError as error:
        raise CommandFailed(f"{file} cannot be written: {error.strerror}.") from None


def _list(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    applications: list[dict[str, Any]] = []
    slugs: dict[int, str] = {}
    for project in list_projects(api, arguments.project):
        path = ("projects", project.id, "configuration", "applications")
        found = api.get_all(*path, limit=_MAX_APPLICATIONS)
        slugs |= {int(each["id"]): project.slug for each in found}
        applications += found
    applications.sort(key=lambda each: -int(each["id"]))
    newest = applications[:_MAX_APPLICATIONS]
    return print_result(arguments, newest, lambda rows: _show_list(arguments, rows, slugs))


def _show(arguments: argparse.Namespace) -> int:
    project, application = _find(open_api(arguments), arguments)
    return print_result(arguments, application, lambda found: _show_one(project, found))


def _change_step(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    project, _ = _find(api, arguments)
    path = ("configuration", "applications", arguments.application, "operations", arguments.operation)
    return print_result(
        arguments, api.post("projects", project.id, *path, arguments.verb), _show_changed_step
    )


def _find(api: Api, arguments: argparse.Namespace) -> tuple[Project, dict[str, Any]]:
    """Return the application that the arguments name, and its project."""
    number = arguments.application
    found = request_first(
        list_projects(api, arguments.project),
        lambda project: api.get("projects", project.id, "configuration", "applications", number),
    )
    if found is None:
        raise NoSuchName(f"There is no application {number}; `pharos config applications` lists the newest.")
    return found


def _schema(arguments: argparse.Namespace) -> int:
    # Imported here: no other verb needs it.
    from control_api.schemas.load_schema import CONFIGURATION, WORKFLOW, load_schema

    name = WORKFLOW if arguments.kind == "workflow" else CONFIGURATION
    print(load_schema(name).decode(), end="")
    return 0


_RUNNERS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "plan": _plan,
    "apply": _apply,
    "export": _export,
    "applications": _list,
    "show": _show,
    "cancel": _change_step,
    "retry": _change_step,
    "schema": _schema,
}


def _show_plan(project: Project, plan: dict[str, Any]) -> None:
    # Imported here and below: rich is slow to import, and --json needs none of it.
    from operator_cli.configuration.diff import open_console, show_plan

    show_plan(open_console(), project.slug, plan)


def _show_list(
    arguments: argparse.Namespace, applications: list[dict[str, Any]], slugs: Mapping[int, str]
) -> None:
    from operator_cli.configuration.run_tables import show_runs

    show_runs(arguments, applications, slugs)


def _show_one(project: Project, application: dict[str, Any]) -> None:
    from operator_cli.configuration.run_tables import show_run

    show_run(project.slug, application)


def _show_changed_step(step: dict[str, Any]) -> None:
    outcome = "is canceled" if step["status"] == "canceled" else "will run again"
    print(f"Operation {step['id']} ({step['action']} {sanitize(step['resource'])}) {outcome}.")
