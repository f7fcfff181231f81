"""Command `pharos config`: the configuration of a project as a document."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from operator_cli.arguments import add_approval_arguments, add_project_argument, add_yes_argument
from operator_cli.configuration.document_arguments import add_document_arguments, read_plan_params
from operator_cli.control_client import WHICH_INSTALLATION, add_data_and_json_arguments, request_action
from operator_cli.errors import CommandFailed
from operator_cli.messages import print_result
from operator_cli.terminal_text import sanitize

HAS_CHANGES = 2
"""Exit status of a plan that changes something."""
_SUBCOMMANDS = {
    "plan": "show what a document would change, without changing anything",
    "apply": "show what a document would change, ask, and apply it",
    "export": "print the current configuration of a project as a document, without the values of variables",
    "applications": "show the newest applications of documents",
    "show": "show an application with the status of each operation",
    "cancel": "cancel an operation that has not begun",
    "retry": "run an operation again that has failed or was canceled",
    "schema": "print the JSON Schema of configuration or workflow documents, for editors",
}
_DETAILS = {
    "plan": "Exit status 0: nothing changes; 1: planning failed, with the reason on stderr; 2: something changes; 64: "
    "wrong arguments or settings. Values of variables are never shown: the digits after ••• distinguish them.",
    "apply": "The plan is frozen while you read it: if the project has changed in between, nothing is applied. "
    "Operations run in order, each as a whole or not at all; after a failed one the others wait. Exit status 0: the "
    "project matches the document; 1: it does not; 64: wrong arguments or settings; 130: Ctrl-C, which stops the "
    "output but not the application. With --json the plan goes to stderr if you are asked, and stdout is the finished "
    "application, null if nothing changes.",
    "export": "Planning the exported document changes nothing.",
    "cancel": "The operation is skipped, and the operations after it run.",
    "retry": "The operations after it run then.",
}


def register_config(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "config",
        help="plan and apply the configuration of a project from a document",
        description="Configuration documents: the desired state of a project, its environments, monitors and sites. "
        "A document leaves unchanged what it does not mention. "
        f"{WHICH_INSTALLATION} The first case also needs PHAROS_VARIABLES_KEY.",
    )
    subcommands = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, summary in _SUBCOMMANDS.items():
        description = f"{summary[0].upper()}{summary[1:]}. {_DETAILS.get(name, '')}".rstrip()
        subcommand = subcommands.add_parser(name, help=summary, description=description)
        _add_arguments(subcommand, name)
        if name != "schema":
            add_data_and_json_arguments(subcommand)
        subcommand.set_defaults(run=_run, subcommand=name)


def _add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    match name:
        case "plan":
            add_document_arguments(parser)
        case "apply":
            add_document_arguments(parser)
            add_yes_argument(parser)
            add_approval_arguments(parser)
        case "export":
            add_project_argument(parser, "prj_…, its number or slug; may be left out where there is only one")
            parser.add_argument(
                "-o", "--output", metavar="FILE", help="write it there, not to standard output"
            )
            parser.add_argument("--force", action="store_true", help="overwrite FILE")
        case "applications":
            add_project_argument(parser, "of this project only: prj_…, its number or slug")
        case "schema":
            kinds = ("configuration", "workflow")
            parser.add_argument("kind", nargs="?", choices=kinds, default=kinds[0], help=f"({kinds[0]})")
        case _:
            parser.add_argument("application", type=int, metavar="APPLICATION", help="its number")
            if name != "show":
                parser.add_argument(
                    "operation",
                    type=int,
                    metavar="OPERATION",
                    help="its number, as `pharos config show` has it",
                )
                _add_by_argument(parser, "the person who asks for it")


def _add_by_argument(parser: argparse.ArgumentParser, help_: str) -> None:
    parser.add_argument("--by", metavar="EMAIL", help=help_)


def _run(arguments: argparse.Namespace) -> int:
    try:
        status = _RUNNERS[arguments.subcommand](arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Not 0 as for other commands: for a plan 0 means that nothing changes.
        sys.stderr.close()
        return 1
    return status


def _plan(arguments: argparse.Namespace) -> int:
    result = request_action(arguments, "configuration/plan", read_plan_params(arguments))
    print_result(arguments, result, _show_plan)
    return HAS_CHANGES if result["plan"]["actions"] else 0


def _apply(arguments: argparse.Namespace) -> int:
    # Imported here: no other subcommand needs it.
    from operator_cli.configuration.apply import apply_configuration

    return apply_configuration(arguments)


def _export(arguments: argparse.Namespace) -> int:
    result = request_action(arguments, "configuration/export", {"project_id": arguments.project_id})
    document = result["document"]
    if arguments.output is not None:
        _write(arguments.output, document, may_overwrite=arguments.force)
    if result["fault"] is not None:
        advice = "Split it into several documents: each leaves unchanged what it does not mention."
        print(f"pharos: {result['fault']} {advice}", file=sys.stderr)
    if arguments.json or arguments.output is None:
        return print_result(arguments, result, lambda result: print(result["document"], end=""))
    print(f"{arguments.output} is the document of {result['project']['slug']}.")
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
    return print_result(
        arguments,
        request_action(arguments, "configuration/list", {"project_id": arguments.project_id}),
        _show_list,
    )


def _show(arguments: argparse.Namespace) -> int:
    return print_result(
        arguments, request_action(arguments, "configuration/show", {"id": arguments.application}), _show_one
    )


def _change_step(arguments: argparse.Namespace) -> int:
    params = {
        "application_id": arguments.application,
        "operation_id": arguments.operation,
        "action": arguments.subcommand,
        "by": arguments.by,
    }
    return print_result(
        arguments, request_action(arguments, "configuration/operate", params), _show_changed_step
    )


def _schema(arguments: argparse.Namespace) -> int:
    # Imported here: no other subcommand needs it.
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


def _show_plan(result: dict[str, Any]) -> None:
    # Imported here and below: rich is slow to import, and --json needs none of it.
    from operator_cli.configuration.diff import open_console, show_plan

    show_plan(open_console(), result["project"], result["plan"])


def _show_list(result: list[dict[str, Any]]) -> None:
    from operator_cli.configuration.run_tables import show_runs

    show_runs(result)


def _show_one(result: dict[str, Any]) -> None:
    from operator_cli.configuration.run_tables import show_run

    show_run(result)


def _show_changed_step(result: dict[str, Any]) -> None:
    outcome = "is canceled" if result["status"] == "canceled" else "will run again"
    print(f"Operation {result['id']} ({result['action']} {sanitize(result['resource'])}) {outcome}.")
