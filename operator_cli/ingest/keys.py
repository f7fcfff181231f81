"""Command `pharos keys`: the ingest keys of all environments."""

import argparse
import json
from typing import Any

from operator_cli.control_client import WHICH_INSTALLATION, add_data_and_json_arguments, request_action


def register_keys(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "keys",
        help="list, create or revoke ingest keys",
        description=f"Ingest keys. {WHICH_INSTALLATION}",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list keys with their environments and states")
    create = actions.add_parser("create", help="create a key; its secret is shown once")
    create.add_argument("--environment", metavar="ID", help="env_…; may be left out where there is only one")
    revoke = actions.add_parser("revoke", help="revoke a key at every edge, within 5 s")
    revoke.add_argument("id", type=int, help="ID as `list` shows it")
    for name, subcommand in (("list", listing), ("create", create), ("revoke", revoke)):
        add_data_and_json_arguments(subcommand)
        subcommand.set_defaults(run=_run, subcommand=name)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.subcommand == "list":
        result = request_action(arguments, "keys/list")
    elif arguments.subcommand == "create":
        result = request_action(arguments, "keys/create", {"environment_id": arguments.environment})
    else:
        result = request_action(arguments, "keys/revoke", {"id": arguments.id})
    if arguments.json:
        print(json.dumps(result))
    elif arguments.subcommand == "list":
        _show(result)
    elif arguments.subcommand == "create":
        print(f"Key {result['id']} of {result['environment_id']}, shown this once:\n{result['ingest_key']}")
    else:
        print(f"Key {result['id']} is revoked.")
    if not arguments.json and arguments.subcommand != "list" and "warning" in result:
        print(result["warning"])
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
