"""`pharos keys list|create|revoke`: the ingest keys of all environments."""

import argparse
import json
from typing import Any

from operator_cli.ask import WHICH, add_ask_arguments, ask


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "keys",
        help="list, make or revoke ingest keys",
        description=f"Ingest keys. {WHICH}",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="show each with its environment and its state")
    create = actions.add_parser("create", help="make one; its secret is shown once")
    create.add_argument("--environment", metavar="ID", help="env_…; may be left out where there is only one")
    revoke = actions.add_parser("revoke", help="let no edge take it any more, within 5 s")
    revoke.add_argument("id", type=int, help="ID as `list` shows it")
    for name, action in (("list", listing), ("create", create), ("revoke", revoke)):
        add_ask_arguments(action)
        action.set_defaults(run=_run, action=name)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.action == "list":
        told = ask(arguments, "keys/list")
    elif arguments.action == "create":
        told = ask(arguments, "keys/create", {"environment_id": arguments.environment})
    else:
        told = ask(arguments, "keys/revoke", {"id": arguments.id})
    if arguments.json:
        print(json.dumps(told))
    elif arguments.action == "list":
        _show(told)
    elif arguments.action == "create":
        print(f"Key {told['id']} of {told['environment_id']}, shown this once:\n{told['ingest_key']}")
    else:
        print(f"Key {told['id']} is revoked.")
    if not arguments.json and arguments.action != "list" and "warning" in told:
        print(told["warning"])
    return 0


def _show(keys: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("ID", "Environment", "Made", "State", box=None, pad_edge=False)
    table.columns[1].no_wrap = True
    for key in keys:
        state = "live" if key["expires_at"] is None else f"until {key['expires_at']}"
        if key["revoked_at"] is not None:
            state = "revoked"
        table.add_row(str(key["id"]), key["environment_id"], key["created_at"], state)
    Console().print(table)
