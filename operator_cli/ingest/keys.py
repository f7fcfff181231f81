"""`pharos key list|create|revoke`: the ingest keys of environments."""

import argparse
from collections.abc import Sequence
from typing import Any

from operator_cli.api.client import open_api
from operator_cli.api.names import Environment, resolve_environment
from operator_cli.arguments import add_verbs, add_yes_argument, complete, confirm
from operator_cli.durations import parse_duration
from operator_cli.messages import print_result

_VERBS = {
    "list": "list the keys of an environment with their states",
    "create": "create a key; its secret is shown once",
    "revoke": "revoke a key at every edge, within 5 s",
}
_DESCRIPTIONS = {"create": "A new key works at once; the other keys keep working."}


def register_key(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "key",
        help="ingest keys",
        description="Ingest keys: what applications send telemetry of an environment with.",
    )
    add_verbs(parser, _VERBS, _run, _add_arguments, _DESCRIPTIONS)


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    if verb == "revoke":
        parser.add_argument("id", type=int, metavar="ID", help="ID as `list` shows it")
        add_yes_argument(parser)
    environment = parser.add_argument(
        "--environment",
        metavar="ENVIRONMENT",
        help="its name (production, or shop/production) or ID; may be left out where there is only one",
    )
    complete(environment, "environment")
    if verb == "create":
        parser.add_argument(
            "--expires", type=parse_duration, metavar="TIME", help="how long it is valid: 90d (without end)"
        )


def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    environment = resolve_environment(api, arguments.environment)
    keys = ("environments", environment.id, "ingest-keys")
    match arguments.verb:
        case "list":
            rows = api.get_all(*keys)
            return print_result(arguments, rows, lambda rows: _show_list(arguments, environment, rows))
        case "create":
            created = api.post(*keys, body={"expires_at": _expiry(arguments.expires)})
            return print_result(arguments, created, lambda key: _show_created(environment, key))
    consequence = f"revoke key {arguments.id} of {environment.path}, and refuse what is sent with it"
    if not confirm(arguments, consequence):
        return 1
    revoked = api.delete(*keys, arguments.id)
    return print_result(
        arguments, revoked, lambda key: print(f"Key {key['id']} of {environment.path} is revoked.")
    )


def _expiry(seconds: int | None) -> str | None:
    """Return the time in so many seconds, as the API takes it."""
    if seconds is None:
        return None
    # Imported here: keys without an end do not need it.
    from datetime import UTC, datetime, timedelta

    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def _show_list(
    arguments: argparse.Namespace, environment: Environment, rows: Sequence[dict[str, Any]]
) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.tables import Column, print_table

    print_table(
        arguments,
        [
            Column("ID"),
            Column("State", wraps=False),
            Column("Created", wraps=False),
            Column("Expires", wraps=False),
        ],
        [(key["id"], key["state"], _minute(key["created_at"]), _minute(key["expires_at"])) for key in rows],
        empty=f"{environment.path} has no keys yet. `pharos key create` makes one.",
    )


def _minute(time: str | None) -> str | None:
    return None if time is None else f"{time[:16].replace('T', ' ')} UTC"


def _show_created(environment: Environment, key: dict[str, Any]) -> None:
    until = "" if key["expires_at"] is None else f" until {_minute(key['expires_at'])}"
    print(f"Key {key['id']} of {environment.path}{until}, shown this once:\n{key['key']}")
