"""What `pharos key` and `pharos ping-key` share: list, create and revoke keys of environments."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from operator_cli.api.client import Api, open_api
from operator_cli.api.default_environment import Effect
from operator_cli.api.names import Environment, list_environments, resolve_environment
from operator_cli.api.problems import ApiRefused
from operator_cli.arguments import add_yes_argument, complete, confirm
from operator_cli.durations import format_utc_minute, parse_duration
from operator_cli.errors import NoSuchName
from operator_cli.messages import print_result

KeysOfEnvironments = Sequence[tuple[Environment, Sequence[dict[str, Any]]]]


class KeyKind(NamedTuple):
    """A kind of key of an environment."""

    noun: str
    """The command: `key`."""
    called: str
    """What its keys are called: `ingest key`."""
    collection: str
    """The last part of the path of its list in the API."""
    refused: str
    """What stops working when one is revoked, after "refuse"."""
    show_created: Callable[[Api, Environment, dict[str, Any]], None]
    """Prints a new key, and how to use it."""


def add_key_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Add the arguments of `list`, `create` or `revoke`."""
    if verb == "revoke":
        parser.add_argument("id", type=int, metavar="ID", help="ID as `list` shows it")
        add_yes_argument(parser)
    environment = parser.add_argument(
        "--environment",
        metavar="ENVIRONMENT",
        help="the environment: production, shop/production or an ID"
        + (
            "; by default PHAROS_DEFAULT_ENVIRONMENT, or the only one"
            if verb == "create"
            else "; by default all"
        ),
    )
    complete(environment, "environment")
    if verb == "create":
        parser.add_argument(
            "--expires", type=parse_duration, metavar="TIME", help="how long it is valid: 90d (without end)"
        )


def run_key_verb(arguments: argparse.Namespace, kind: KeyKind) -> int:
    """Run `list`, `create` or `revoke` for keys of this kind. Return the exit status."""
    api = open_api(arguments)
    match arguments.verb:
        case "list":
            keys = _list_keys(api, kind, arguments.environment)
            return print_result(
                arguments,
                [key for _, rows in keys for key in rows],
                lambda _: _show_list(arguments, kind, keys),
            )
        case "create":
            environment = resolve_environment(api, arguments.environment, effect=Effect.ADDS)
            body = {"expires_at": _expiry(arguments.expires)}
            created = api.post("environments", environment.id, kind.collection, body=body)
            return print_result(
                arguments, created, lambda key: kind.show_created(api, environment, key), quiet="key"
            )
    environment = _find_environment(api, kind, arguments.environment, arguments.id)
    consequence = f"revoke {kind.called} {arguments.id} of {environment.path}, and refuse {kind.refused}"
    if not confirm(arguments, consequence):
        return 1
    revoked = api.delete("environments", environment.id, kind.collection, arguments.id)
    name = kind.called.capitalize()
    return print_result(
        arguments, revoked, lambda key: print(f"{name} {key['id']} of {environment.path} is revoked.")
    )


def _list_keys(api: Api, kind: KeyKind, environment: str | None) -> KeysOfEnvironments:
    """Return the keys of an environment, or of each one that the caller may read. Raises `CommandFailed`."""
    if environment is not None:
        chosen = resolve_environment(api, environment, effect=Effect.READS)
        return [(chosen, api.get_all("environments", chosen.id, kind.collection))]
    found = []
    for each in list_environments(api):
        try:
            found.append((each, api.get_all("environments", each.id, kind.collection)))
        except ApiRefused as error:
            if error.slug != "deploy-not-allowed":
                raise
    return found


def _find_environment(api: Api, kind: KeyKind, environment: str | None, key_id: int) -> Environment:
    """Return the environment of the name, or the one that has the key. Raises `CommandFailed`."""
    if environment is not None:
        return resolve_environment(api, environment)
    for each, keys in _list_keys(api, kind, None):
        if any(key["id"] == key_id for key in keys):
            return each
    raise NoSuchName(f"There is no {kind.called} {key_id}; `pharos {kind.noun} list` shows all.")


def _expiry(seconds: int | None) -> str | None:
    """Return the time in so many seconds, as the API takes it."""
    if seconds is None:
        return None
    # Imported here: keys without an end do not need it.
    from datetime import UTC, datetime, timedelta

    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def _show_list(arguments: argparse.Namespace, kind: KeyKind, keys: KeysOfEnvironments) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.tables import Column, print_table

    print_table(
        arguments,
        [
            Column("ID", is_number=True),
            Column("Environment", wraps=False),
            # Ping keys have no name.
            Column("For", is_optional=True),
            Column("State", wraps=False),
            Column("Created", wraps=False),
            Column("Expires", wraps=False, is_optional=True),
        ],
        [
            (
                key["id"],
                each.path,
                key.get("name"),
                key["state"],
                _minute(key["created_at"]),
                _minute(key["expires_at"]),
            )
            for each, rows in keys
            for key in rows
        ],
        empty=f"No {kind.called}s yet. `pharos {kind.noun} create` makes one.",
    )


def describe_created(environment: Environment, kind: str, key: dict[str, Any]) -> str:
    """Return the line before a new secret. `kind`: what its keys are called, with a capital."""
    until = "" if key["expires_at"] is None else f" until {_minute(key['expires_at'])}"
    return f"{kind} {key['id']} of {environment.path}{until}, shown this once:"


def _minute(time: str | None) -> str | None:
    return None if time is None else format_utc_minute(time)
