"""The command `pharos doctor`: checks whether Pharos can run here, and what is missing."""

import argparse
import json
import os
from dataclasses import asdict

from operator_cli.credentials import DEFAULT_DATA, add_data_argument
from operator_cli.doctor.finding import Finding
from operator_cli.errors import FAILED
from operator_cli.messages import qualify_commands
from operator_cli.settings import load_settings
from pipeline_contracts.settings import BadSettings, Settings


def register_doctor(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "doctor",
        help="check whether Pharos can run here",
        description="Check this machine and the data folder: versions, settings, Git, disk, ports, permissions, and "
        "how far applications are confined. Where this user is logged in to "
        "a server and the current folder has no data folder, the server is checked in place of the folder and the "
        "ports. It sends nothing to anybody else. In an installation with one process per part, "
        "run it where the part runs. Exit status 1: a check found an error.",
    )
    add_data_argument(parser)
    parser.add_argument("--host", help="--host of `pharos up` (127.0.0.1)")
    parser.add_argument("--port", type=int, help="--port of `pharos up` (8000)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    findings = _find(arguments)
    if arguments.json:
        print(json.dumps([asdict(each) for each in findings], indent=2))
    else:
        _print(findings)
    return FAILED if any(each.status == "error" for each in findings) else 0


def _find(arguments: argparse.Namespace) -> list[Finding]:
    # Imported here: `--help` and completion need none of it.
    from operator_cli.doctor.check_machine import check_machine
    from wiring.control_plane import check_settings

    try:
        settings, found = load_settings(), Finding("Settings", "ok", "all PHAROS_* variables are valid")
        check_settings(settings)
    except BadSettings as error:
        settings = Settings()
        found = Finding("Settings", "error", str(error), "`pharos settings` lists all of them.")
    return [*check_machine(settings), found, *_check_server_or_installation(arguments, settings)]


def _check_server_or_installation(arguments: argparse.Namespace, settings: Settings) -> list[Finding]:
    from operator_cli.api.target import find_target
    from operator_cli.doctor.check_installation import check_installation
    from operator_cli.doctor.check_server import check_server
    from operator_cli.errors import CommandFailed, NotLoggedIn

    is_local = arguments.data != DEFAULT_DATA or arguments.host is not None or arguments.port is not None
    if not is_local and not os.path.lexists(DEFAULT_DATA):
        try:
            return [check_server(find_target(argparse.Namespace()))]
        except NotLoggedIn:
            pass
        except CommandFailed as error:
            return [Finding("Server", "error", str(error))]
    host, port = arguments.host or "127.0.0.1", 8000 if arguments.port is None else arguments.port
    return list(check_installation(arguments.data, host, port, settings))


def _print(findings: list[Finding]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    styles = {"ok": "green", "warning": "yellow", "error": "bold red"}
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for each in findings:
        detail = each.detail if each.advice is None else f"{each.detail}\n{each.advice}"
        text = Text(qualify_commands(detail))
        table.add_row(Text(each.status, style=styles[each.status]), each.name, text)
    Console(highlight=False).print(table)
    errors = sum(each.status == "error" for each in findings)
    warnings = sum(each.status == "warning" for each in findings)
    if errors or warnings:
        print(f"\n{errors} {_plural(errors, 'error')}, {warnings} {_plural(warnings, 'warning')}.")
    else:
        print("\nPharos can run here.")


def _plural(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"
