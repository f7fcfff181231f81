"""`pharos workflow set|show|check`."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from operator_cli.api.client import Api, open_api
from operator_cli.api.default_environment import Effect
from operator_cli.api.names import Project, resolve_project
from operator_cli.api.problems import ApiRefused
from operator_cli.arguments import add_project_argument, add_verbs
from operator_cli.documents import DocumentFault, read_faults
from operator_cli.errors import CommandFailed
from operator_cli.messages import print_result, qualify_commands
from operator_cli.read_text import MAX_CHARACTERS, read_document
from operator_cli.terminal_text import sanitize

_VERBS = {
    "set": "make a YAML file the workflow of a project, from its next deployment on",
    "show": "print the workflow of a project, as it was set",
    "check": "check a YAML file: list its faults, without an installation and without setting anything",
}


def register_workflow(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "workflow",
        help="how a project is built, released and run",
        description="Workflow documents define how a project is built, released and run, and which pushes deploy it.",
    )
    add_verbs(parser, _VERBS, _run, _add_arguments)


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    if verb != "show":
        parser.add_argument(
            "file", metavar="FILE", help="YAML of up to 50,000 characters; - reads standard input"
        )
    if verb != "check":
        add_project_argument(parser, dest="project")


def _run(arguments: argparse.Namespace) -> int:
    match arguments.verb:
        case "set":
            return _set(arguments)
        case "check":
            return _check(arguments)
    api = open_api(arguments)
    project = resolve_project(api, arguments.project, effect=Effect.READS)
    workflow = api.get("projects", project.id, "workflow")
    return print_result(arguments, workflow, lambda found: _show(project, found))


def _set(arguments: argparse.Namespace) -> int:
    text = _read_file(arguments.file)
    api = open_api(arguments)
    project = resolve_project(api, arguments.project)
    try:
        document = api.put("projects", project.id, "workflow", body={"workflow": text})
    except ApiRefused as error:
        if faults := read_faults(error, "workflow"):
            return _report_faults(arguments, faults)
        raise
    return print_result(arguments, document, lambda _: _show_set(api, project))


def _check(arguments: argparse.Namespace) -> int:
    text = _read_file(arguments.file)
    # Imported here because the other verbs use the API.
    from control_domain.documents.faults import DocumentFault as Faults
    from control_domain.workflows.document import to_json
    from control_domain.workflows.read_workflow import read_workflow

    try:
        document = to_json(read_workflow(text))
    except Faults as error:
        faults = [DocumentFault(fault.path, fault.line, fault.message) for fault in error.faults]
        return _report_faults(arguments, faults)
    return print_result(
        arguments, {"document": document}, lambda _: print(f"{arguments.file} is a workflow.")
    )


def _report_faults(arguments: argparse.Namespace, faults: Sequence[DocumentFault]) -> int:
    """Print the faults. Return exit status 1."""
    if arguments.json:
        print(json.dumps({"faults": [fault._asdict() for fault in faults]}))
        return 1
    for fault in faults:
        print(fault.format(arguments.file), file=sys.stderr)
    return 1


def _read_file(file: str) -> str:
    """Return the text of the file. Raises `CommandFailed` if it is longer than a workflow may be."""
    text = read_document(file)
    if len(text) > MAX_CHARACTERS:
        raise CommandFailed(f"{file} has more than {MAX_CHARACTERS:,} characters, which is the maximum.")
    return text


def _show_set(api: Api, project: Project) -> None:
    version = api.get("projects", project.id, "workflow")["version"]
    print(f"The project {project.slug} has version {version} of its workflow, for its next deployment.")


def _show(project: Project, workflow: dict[str, Any] | None) -> None:
    if workflow is None:
        print(
            qualify_commands(
                f"The project {project.slug} has no workflow yet. `pharos workflow set FILE --project {project.slug}` "
                "sets one; without one, the pharos.yaml of the repository applies."
            )
        )
        return
    text = workflow["text"]
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    if workflow["fault"] is not None:
        print(f"This version of Pharos does not accept it: {sanitize(workflow['fault'])}", file=sys.stderr)
