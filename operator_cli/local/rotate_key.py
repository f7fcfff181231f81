"""`pharos variables rotate-key`: seal all stored secrets again with the newest key."""

import argparse
from typing import Any

from operator_cli.credentials import add_data_argument
from operator_cli.errors import CommandFailed
from operator_cli.local.door import WHICH_INSTALLATION, request_as_operator
from operator_cli.messages import print_result

# Rounds in a row that sealed nothing because others wrote the same rows.
_MAX_IDLE_ROUNDS = 5
_DESCRIPTION = (
    "Seal the variables of all environments, those that wait for approval too, the secrets of webhooks and the ping "
    "keys of heartbeats again under the first secret of PHAROS_VARIABLES_KEY. To rotate: (1) put a new secret of 32 "
    "characters or more before the old one, with a comma between them (PHAROS_VARIABLES_KEY=new,old; with `pharos up` "
    "the same in the file DIR/variables.key, unless PHAROS_VARIABLES_KEY is set there), (2) restart `pharos up`, or "
    "every `pharos control`, (3) run this command with the same setting, (4) take the old secret away and restart "
    f"again. It can be stopped and run again at any time. {WHICH_INSTALLATION} The first case also needs "
    "PHAROS_VARIABLES_KEY."
)


def add_rotate_key(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this verb to those of `pharos variables`."""
    parser = verbs.add_parser(
        "rotate-key",
        help="seal all variables again with the newest key (operator)",
        description=_DESCRIPTION,
    )
    add_data_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    return print_result(arguments, _rotate(arguments), _show)


def _rotate(arguments: argparse.Namespace) -> dict[str, Any]:
    """Request rounds, each a transaction of its own, until nothing is sealed with another key."""
    # Imported here: `--help` and completion need none of it.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from pipeline_contracts.operator_requests import RotateKey

    console = Console(stderr=True)
    columns = (TextColumn("sealed again"), BarColumn(), MofNCompleteColumn())
    hidden = arguments.json or not console.is_terminal
    done = idle = 0
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task("sealing", total=None)
        while True:
            result = request_as_operator(arguments, RotateKey())
            done += result["resealed"]
            progress.update(task, completed=done, total=done + result["left"])
            if not result["left"]:
                return {"resealed": done, "key_id": result["key_id"]}
            idle = 0 if result["resealed"] else idle + 1
            if idle == _MAX_IDLE_ROUNDS:
                raise CommandFailed(
                    f"{result['left']} were changed by others meanwhile: run the command again."
                )


def _show(result: dict[str, Any]) -> None:
    print(
        f"Sealed again under key {result['key_id']}: {result['resealed']:,}. Nothing is left under another key."
    )
