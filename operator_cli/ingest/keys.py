"""`pharos key list|create|revoke`: the ingest keys of environments."""

import argparse
from collections.abc import Sequence
from typing import Any

from operator_cli.api.client import Api, open_api
from operator_cli.api.names import Environment, list_environments, resolve_environment
from operator_cli.api.problems import ApiRefused
from operator_cli.arguments import add_verbs, add_yes_argument, complete, confirm
from operator_cli.durations import format_utc_minute, parse_duration
from operator_cli.errors import NoSuchName
from operator_cli.messages import print_result

_VERBS = {
    "list": "list the keys of all environments, or of one, with their states",
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
        help="its name (production, or shop/production) or ID"
        + ("; may be left out where there is only one" if verb == "create" else ""),
    )
    complete(environment, "environment")
    if verb == "create":
        parser.add_argument(
            "--expires", type=parse_duration, metavar="TIME", help="how long it is valid: 90d (without end)"
        )


def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    match arguments.verb:
        case "list":
            keys = _list_keys(api, arguments.environment)
            return print_result(
                arguments,
                [key for _, rows in keys for key in rows],
                lambda _: _show_list(arguments, keys),
            )
        case "create":
            environment = resolve_environment(api, arguments.environment)
            body = {"expires_at": _expiry(arguments.expires)}
            created = api.post("environments", environment.id, "ingest-keys", body=body)
            return print_result(arguments, created, lambda key: _show_created(environment, key), quiet="key")
    environment = _find_environment(api, arguments.environment, arguments.id)
    consequence = f"revoke key {arguments.id} of {environment.path}, and refuse what is sent with it"
    if not confirm(arguments, consequence):
        return 1
    revoked = api.delete("environments", environment.id, "ingest-keys", arguments.id)
    return print_result(
        arguments, revoked, lambda key: print(f"Key {key['id']} of {environment.path} is revoked.")
    )


def _list_keys(api: Api, environment: str | None) -> list[tuple[Environment, list[dict[str, Any]]]]:
    """Return the keys of an environment, or of each one that the caller may read. Raises `CommandFailed`."""
    if environment is not None:
        chosen = resolve_environment(api, environment)
        return [(chosen, api.get_all("environments", chosen.id, "ingest-keys"))]
    found = []
    for each in list_environments(api):
        try:
            found.append((each, api.get_all("environments", each.id, "ingest-keys")))
        except ApiRefused as error:
            if error.slug != "deploy-not-allowed":
                raise
    return found


def _find_environment(api: Api, environment: str | None, key_id: int) -> Environment:
    """Return the environment of the name, or the one that has the key. Raises `CommandFailed`."""
    if environment is not None:
        return resolve_environment(api, environment)
    for each, keys in _list_keys(api, None):
        if any(key["id"] == key_id for key in keys):
            return each
    raise NoSuchName(f"There is no ingest key {key_id}; `pharos key list` shows all.")


def _expiry(seconds: int | None) -> str | None:
    """Return the time in so many seconds, as the API takes it."""
    if seconds is None:
        return None
    # Imported here: keys without an end do not need it.
    from datetime import UTC, datetime, timedelta

    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def _show_list(
    arguments: argparse.Namespace, keys: Sequence[tuple[Environment, Sequence[dict[str, Any]]]]
) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.tables import Column, print_table

    print_table(
        arguments,
        [
            Column("ID", is_number=True),
            Column("Environment", wraps=False),
            Column("For", is_optional=True),
            Column("State", wraps=False),
            Column("Created", wraps=False),
            Column("Expires", wraps=False, is_optional=True),
        ],
        [
            (
                key["id"],
                each.path,
                key["name"],
                key["state"],
                _minute(key["created_at"]),
                _minute(key["expires_at"]),
            )
            for each, rows in keys
            for key in rows
        ],
        empty="No ingest keys yet. `pharos key create` makes one.",
    )


def _minute(time: str | None) -> str | None:
    return None if time is None else format_utc_minute(time)


def _show_created(environment: Environment, key: dict[str, Any]) -> None:
    until = "" if key["expires_at"] is None else f" until {_minute(key['expires_at'])}"
    print(f"Key {key['id']} of {environment.path}{until}, shown this once:\n{key['key']}")
