"""`pharos keys list|create|revoke`: the ingest keys of all environments."""

import argparse
import asyncio
import json
from datetime import UTC, datetime
from typing import Any

from operator_cli.credentials import add_data_argument
from operator_cli.failure import CommandFailed
from operator_cli.operator_client import ask_operator
from operator_cli.process_settings import load_settings
from pipeline_contracts.settings import Settings


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "keys",
        help="list, make or revoke ingest keys",
        description="Ingest keys. With PHAROS_DATABASE_URL and PHAROS_REDIS_URL set, those of that installation, else "
        "those of the `pharos up` that runs on the data folder.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="show each with its environment and its state")
    create = actions.add_parser("create", help="make one; its secret is shown once")
    create.add_argument("--environment", metavar="ID", help="env_…; may be left out where there is only one")
    revoke = actions.add_parser("revoke", help="let no edge take it any more, within 5 s")
    revoke.add_argument("id", type=int, help="ID as `list` shows it")
    for name, action in (("list", listing), ("create", create), ("revoke", revoke)):
        add_data_argument(action)
        action.add_argument("--json", action="store_true", help="print JSON")
        action.set_defaults(run=_run, action=name)


def _run(arguments: argparse.Namespace) -> int:
    settings = load_settings()
    away = settings.database_url is None
    told = asyncio.run(_ask_running(arguments) if away else _ask_engines(settings, arguments))
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


async def _ask_running(arguments: argparse.Namespace) -> Any:
    if arguments.action == "list":
        answer = await ask_operator(arguments.data, "GET", "/keys")
    elif arguments.action == "create":
        body = json.dumps({"environment_id": arguments.environment})
        answer = await ask_operator(arguments.data, "POST", "/keys", body=body)
    else:
        answer = await ask_operator(arguments.data, "DELETE", f"/keys/{arguments.id}")
    return json.loads(answer)


async def _ask_engines(settings: Settings, arguments: argparse.Namespace) -> Any:
    # Only here: the socket of `pharos up` needs none of it.
    from sqlalchemy.exc import SQLAlchemyError

    from control_api.projects.keys import KeyRefused, create_key, list_keys, revoke_key
    from service_processes.keys import key_engines

    try:
        async with key_engines(settings) as (sessions, directory):
            now = datetime.now(UTC)
            if arguments.action == "list":
                return list(await list_keys(sessions))
            if arguments.action == "create":
                return await create_key(sessions, directory, arguments.environment, now)
            return await revoke_key(sessions, directory, arguments.id, now)
    except (KeyRefused, SQLAlchemyError) as error:
        raise CommandFailed(str(error)) from error


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
