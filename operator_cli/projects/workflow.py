"""`pharos workflow set|show|check`."""

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from operator_cli.arguments import add_project_argument, add_subcommands
from operator_cli.control_client import WHICH_INSTALLATION, request_action
from operator_cli.errors import CommandFailed
from operator_cli.messages import print_result, qualify_commands
from operator_cli.read_text import MAX_CHARACTERS, read_document

if TYPE_CHECKING:
    from control_domain.documents.faults import Fault

_SUBCOMMANDS = {
    "set": "make a YAML file the workflow of a project, from its next deployment on",
    "show": "print the YAML as it was set",
    "check": "list the faults of a YAML file, without an installation and without setting anything",
}


def register_workflow(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "workflow",
        help="set, show and check how a project is built, released and run",
        description="Workflow documents: how a project is built, released and run, and which pushes deploy it. "
        f"{WHICH_INSTALLATION}",
    )
    add_subcommands(parser, _SUBCOMMANDS, _run, _add_arguments)


def _add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    if name != "show":
        parser.add_argument(
            "file", metavar="FILE", help="YAML of up to 50,000 characters; - reads standard input"
        )
    if name == "set":
        parser.add_argument(
            "--by",
            metavar="EMAIL",
            help="who sets it; another person has to approve deployments that wait for approval",
        )
    if name != "check":
        add_project_argument(parser, "prj_…, its number or slug; may be left out where there is only one")


def _run(arguments: argparse.Namespace) -> int:
    match arguments.subcommand:
        case "set":
            return _set(arguments)
        case "check":
            return _check(arguments)
    return print_result(
        arguments, request_action(arguments, "workflows/show", {"project_id": arguments.project_id}), _show
    )


def _set(arguments: argparse.Namespace) -> int:
    text = _read_file(arguments.file)
    _, faults = _find_faults(text)
    if faults:
        return _report_faults(arguments, faults)
    params = {"project_id": arguments.project_id, "text": text, "by": arguments.by}
    result = request_action(arguments, "workflows/set", params)
    return print_result(arguments, result, _show_set)


def _check(arguments: argparse.Namespace) -> int:
    document, faults = _find_faults(_read_file(arguments.file))
    if faults:
        return _report_faults(arguments, faults)
    return print_result(
        arguments, {"document": document}, lambda result: print(f"{arguments.file} is a workflow.")
    )


def _find_faults(text: str) -> "tuple[dict[str, Any] | None, tuple[Fault, ...]]":
    """Return the document as plain data, or its faults."""
    # Imported here: `show` needs none of it.
    from control_domain.documents.faults import DocumentFault
    from control_domain.workflows.document import to_json
    from control_domain.workflows.read_workflow import read_workflow

    try:
        return to_json(read_workflow(text)), ()
    except DocumentFault as error:
        return None, error.faults


def _report_faults(arguments: argparse.Namespace, faults: "tuple[Fault, ...]") -> int:
    """Print faults as compilers do, so that editors find the line. Return exit status 1."""
    if arguments.json:
        documents = [{"path": fault.path, "line": fault.line, "message": fault.message} for fault in faults]
        print(json.dumps({"faults": documents}))
        return 1
    for fault in faults:
        path = f"{fault.path}: " if fault.path else ""
        print(f"{arguments.file}:{fault.line}: {path}{fault.message}", file=sys.stderr)
    return 1


def _read_file(file: str) -> str:
    """Return the text of the file. Raises `CommandFailed` if it is longer than a workflow may be."""
    text = read_document(file)
    if len(text) > MAX_CHARACTERS:
        raise CommandFailed(f"{file} has more than {MAX_CHARACTERS:,} characters, which is the maximum.")
    return text


def _show_set(result: dict[str, Any]) -> None:
    slug, version = result["project"]["slug"], result["version"]
    print(f"The project {slug} has version {version} of its workflow, for its next deployment.")


def _show(result: dict[str, Any]) -> None:
    slug = result["project"]["slug"]
    if result["version"] is None:
        print(
            qualify_commands(
                f"The project {slug} has no workflow yet. `pharos workflow set FILE --project {slug}` sets one."
            )
        )
        return
    sys.stdout.write(result["text"] if result["text"].endswith("\n") else f"{result['text']}\n")
    if result["fault"] is not None:
        print(f"This version of Pharos does not accept it: {result['fault']}", file=sys.stderr)
