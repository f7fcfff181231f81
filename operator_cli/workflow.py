"""`pharos workflow set|show|check`."""

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from operator_cli.actions import add_actions
from operator_cli.ask import WHICH, ask
from operator_cli.environment import add_project_argument
from operator_cli.failure import CommandFailed
from operator_cli.read_text import MOST_CHARACTERS, read_document
from operator_cli.tell import tell
from operator_cli.typed_commands import typed_commands

if TYPE_CHECKING:
    from control_domain.documents.faults import Fault

_ACTIONS = {
    "set": "make a YAML file the workflow of a project, from its next deployment on",
    "show": "print the YAML as it was set",
    "check": "say what is wrong with a YAML file; nothing needs to run for that, and nothing is set",
}


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "workflow",
        help="set, show and check how a project is built, released and run",
        description="Workflow documents: how a project is built, released and run, and which pushes deploy it. "
        f"{WHICH}",
    )
    add_actions(parser, _ACTIONS, _run, _add_arguments)


def _add_arguments(action: argparse.ArgumentParser, name: str) -> None:
    if name != "show":
        action.add_argument(
            "file", metavar="FILE", help="YAML of up to 50,000 characters; - reads standard input"
        )
    if name == "set":
        action.add_argument(
            "--by",
            metavar="EMAIL",
            help="who sets it; another person approves the deployments that wait for approval",
        )
    if name != "check":
        add_project_argument(action, "prj_…, its number or slug; may be left out where there is only one")


def _run(arguments: argparse.Namespace) -> int:
    match arguments.action:
        case "set":
            return _set(arguments)
        case "check":
            return _check(arguments)
    return tell(arguments, ask(arguments, "workflows/show", {"project_id": arguments.project_id}), _show)


def _set(arguments: argparse.Namespace) -> int:
    text = _read(arguments.file)
    _, faults = _find_faults(text)
    if faults:
        return _tell_faults(arguments, faults)
    wanted = {"project_id": arguments.project_id, "text": text, "by": arguments.by}
    told = ask(arguments, "workflows/set", wanted)
    return tell(arguments, told, _show_set)


def _check(arguments: argparse.Namespace) -> int:
    document, faults = _find_faults(_read(arguments.file))
    if faults:
        return _tell_faults(arguments, faults)
    return tell(arguments, {"document": document}, lambda told: print(f"{arguments.file} is a workflow."))


def _find_faults(text: str) -> "tuple[dict[str, Any] | None, tuple[Fault, ...]]":
    """The document as plain data, or what is wrong with it."""
    # Only here: `show` needs none of it.
    from control_domain.documents.faults import DocumentFault
    from control_domain.workflows.document import to_json
    from control_domain.workflows.read_workflow import read_workflow

    try:
        return to_json(read_workflow(text)), ()
    except DocumentFault as error:
        return None, error.faults


def _tell_faults(arguments: argparse.Namespace, faults: "tuple[Fault, ...]") -> int:
    """As compilers do, so that editors find the place; gives exit status 1."""
    if arguments.json:
        told = [{"path": fault.path, "line": fault.line, "message": fault.message} for fault in faults]
        print(json.dumps({"faults": told}))
        return 1
    for fault in faults:
        place = f"{fault.path}: " if fault.path else ""
        print(f"{arguments.file}:{fault.line}: {place}{fault.message}", file=sys.stderr)
    return 1


def _read(file: str) -> str:
    """The file's text, of which no more is read than may be set. Raises `CommandFailed`."""
    text = read_document(file)
    if len(text) > MOST_CHARACTERS:
        raise CommandFailed(f"{file} has more than {MOST_CHARACTERS:,} characters, which is the most.")
    return text


def _show_set(told: dict[str, Any]) -> None:
    print(
        f"The project {told['project']['slug']} has version {told['version']} of its workflow, for its next deployment."
    )


def _show(told: dict[str, Any]) -> None:
    slug = told["project"]["slug"]
    if told["version"] is None:
        print(
            typed_commands(
                f"The project {slug} has no workflow yet. `pharos workflow set FILE --project {slug}` sets one."
            )
        )
        return
    sys.stdout.write(told["text"] if told["text"].endswith("\n") else f"{told['text']}\n")
    if told["fault"] is not None:
        print(f"This version of Pharos does not take it: {told['fault']}", file=sys.stderr)
