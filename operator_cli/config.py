"""`pharos config plan|apply|export|applications|show|cancel|retry|schema`: a project as a document."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from operator_cli.ask import WHICH, add_ask_arguments, ask
from operator_cli.configuration_bindings import add_document_arguments, read_wanted
from operator_cli.confirm import add_yes_argument
from operator_cli.environment import add_agreed_arguments, add_project_argument
from operator_cli.failure import CommandFailed
from operator_cli.plain_text import plain
from operator_cli.tell import tell

CHANGES = 2
"""The exit status of a plan that changes something."""
_ACTIONS = {
    "plan": "show what a document changes; nothing is changed by that",
    "apply": "show what a document changes, ask, and bring that about",
    "export": "print a project as it is as a document; variables are named, their values are not told",
    "applications": "show the newest applications",
    "show": "show an application, and what became of each of its operations",
    "cancel": "call an operation off that has not begun",
    "retry": "carry an operation out that has failed or was canceled",
    "schema": "print the JSON Schema of configuration or workflow documents, for editors",
}
_MORE = {
    "plan": "Exit status 0: nothing changes; 1: there is no plan, and why is on stderr; 2: something changes; 64: "
    "wrong arguments or settings. A variable's value is never shown: the digits behind ••• tell one from another.",
    "apply": "The plan is frozen while you look at it: where the project has changed meanwhile, nothing is done. "
    "Operations are carried out in order, each as a whole or not at all; behind one that has failed the others wait. "
    "Exit status 0: all is as the document says; 1: it is not; 64: wrong arguments or settings; 130: Ctrl-C, which "
    "ends the following only. With --json the plan is on stderr where you are asked, and what is printed is the "
    "application in the end, null where nothing changes.",
    "export": "A plan of it changes nothing.",
    "cancel": "What it would have done is left undone, and those behind it are carried out.",
    "retry": "Those that wait behind it go on then.",
}


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "config",
        help="plan and apply how a project shall be, as a document",
        description="Configuration documents: how a project, its environments, monitors and sites shall be. What a "
        f"document leaves out stays as it is. {WHICH} PHAROS_VARIABLES_KEY is needed as well then.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, summary in _ACTIONS.items():
        told = f"{summary[0].upper()}{summary[1:]}. {_MORE.get(name, '')}"
        action = actions.add_parser(name, help=summary, description=told.rstrip())
        _add_arguments(action, name)
        if name != "schema":
            add_ask_arguments(action)
        action.set_defaults(run=_run, action=name)


def _add_arguments(action: argparse.ArgumentParser, name: str) -> None:
    match name:
        case "plan":
            add_document_arguments(action)
        case "apply":
            add_document_arguments(action)
            add_yes_argument(action)
            add_agreed_arguments(action)
        case "export":
            add_project_argument(action, "prj_…, its number or slug; may be left out where there is only one")
            action.add_argument(
                "-o", "--output", metavar="FILE", help="write it there, not to standard output"
            )
            action.add_argument("--force", action="store_true", help="overwrite FILE")
        case "applications":
            add_project_argument(action, "of this project only: prj_…, its number or slug")
        case "schema":
            kinds = ("configuration", "workflow")
            action.add_argument("kind", nargs="?", choices=kinds, default=kinds[0], help=f"({kinds[0]})")
        case _:
            action.add_argument("application", type=int, metavar="APPLICATION", help="its number")
            if name != "show":
                action.add_argument(
                    "operation",
                    type=int,
                    metavar="OPERATION",
                    help="its number, as `pharos config show` has it",
                )
                _add_by_argument(action, "who asks for it")


def _add_by_argument(action: argparse.ArgumentParser, help_: str) -> None:
    action.add_argument("--by", metavar="EMAIL", help=help_)


def _run(arguments: argparse.Namespace) -> int:
    try:
        status = _DOES[arguments.action](arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Not 0, as elsewhere: of a plan that would say that nothing changes.
        sys.stderr.close()
        return 1
    return status


def _plan(arguments: argparse.Namespace) -> int:
    told = ask(arguments, "configuration/plan", read_wanted(arguments))
    tell(arguments, told, _show_plan)
    return CHANGES if told["plan"]["actions"] else 0


def _apply(arguments: argparse.Namespace) -> int:
    # Only here: no other action follows anything.
    from operator_cli.configuration_apply import apply_configuration

    return apply_configuration(arguments)


def _export(arguments: argparse.Namespace) -> int:
    told = ask(arguments, "configuration/export", {"project_id": arguments.project_id})
    document = told["document"]
    if arguments.output is not None:
        _write(arguments.output, document, may_overwrite=arguments.force)
    if told["fault"] is not None:
        advice = "Make several of it: what one of them leaves out stays as it is."
        print(f"pharos: {told['fault']} {advice}", file=sys.stderr)
    if arguments.json or arguments.output is None:
        return tell(arguments, told, lambda told: print(told["document"], end=""))
    print(f"{arguments.output} is the document of {told['project']['slug']}.")
    return 0


def _write(file: str, document: str, *, may_overwrite: bool) -> None:
    how = os.O_TRUNC if may_overwrite else os.O_EXCL
    try:
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | how, 0o644)
        with open(opened, "wb") as output:
            output.write(document.encode())
    except FileExistsError:
        raise CommandFailed(
            f"{file} is there already: name another file, or overwrite it with --force."
        ) from None
    except OSError as error:
        raise CommandFailed(f"{file} cannot be written: {error.strerror}.") from None


def _list(arguments: argparse.Namespace) -> int:
    return tell(
        arguments, ask(arguments, "configuration/list", {"project_id": arguments.project_id}), _show_list
    )


def _show(arguments: argparse.Namespace) -> int:
    return tell(arguments, ask(arguments, "configuration/show", {"id": arguments.application}), _show_one)


def _operate(arguments: argparse.Namespace) -> int:
    wanted = {
        "application_id": arguments.application,
        "operation_id": arguments.operation,
        "action": arguments.action,
        "by": arguments.by,
    }
    return tell(arguments, ask(arguments, "configuration/operate", wanted), _tell_operated)


def _schema(arguments: argparse.Namespace) -> int:
    # Only here: nothing else prints one.
    from control_api.schemas.load_schema import CONFIGURATION, WORKFLOW, load_schema

    name = WORKFLOW if arguments.kind == "workflow" else CONFIGURATION
    print(load_schema(name).decode(), end="")
    return 0


_DOES: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "plan": _plan,
    "apply": _apply,
    "export": _export,
    "applications": _list,
    "show": _show,
    "cancel": _operate,
    "retry": _operate,
    "schema": _schema,
}


def _show_plan(told: dict[str, Any]) -> None:
    # Here and below: a program that asks for JSON need not wait for what draws.
    from operator_cli.configuration_diff import open_console, show_plan

    show_plan(open_console(), told["project"], told["plan"])


def _show_list(told: list[dict[str, Any]]) -> None:
    from operator_cli.configuration_tables import show_applications

    show_applications(told)


def _show_one(told: dict[str, Any]) -> None:
    from operator_cli.configuration_tables import show_application

    show_application(told)


def _tell_operated(told: dict[str, Any]) -> None:
    what = "is called off" if told["status"] == "canceled" else "is to be carried out again"
    print(f"Operation {told['id']} ({told['action']} {plain(told['resource'])}) {what}.")
