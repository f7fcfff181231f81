"""`pharos token list|create|revoke`: API tokens."""

import argparse
from collections.abc import Sequence
from typing import Any, Final

from control_domain.accounts.roles import SCOPES
from operator_cli.accounts.find_person import find_person
from operator_cli.api.choose import choose
from operator_cli.api.client import Api, open_api
from operator_cli.api.names import Row
from operator_cli.arguments import add_verbs, add_yes_argument, complete, confirm
from operator_cli.durations import format_utc_minute, parse_duration
from operator_cli.errors import UsageError
from operator_cli.local.tokens import create_token_locally
from operator_cli.messages import print_result

_VERBS: Final = {
    "list": "list API tokens with their person, scopes and last use",
    "create": "create an API token of your own; its secret is shown once",
    "revoke": "revoke an API token, from its next request on",
}
_DESCRIPTIONS: Final = {
    "list": "Your tokens; for owners and admins, the tokens of everybody in the account. The newest "
    "first, without their secrets.",
    "create": "The new token has no scope that the token of this command lacks, and does not outlive "
    "it. With --local, which only an operator of the machine can use, no other token is "
    "needed and the token may be for anybody.",
    "revoke": "One of your tokens; for owners and admins, a token of anybody in the account.",
}


def register_token(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "token",
        help="API tokens",
        description="API tokens: each represents a person in an account, and may do what its scopes and the person's "
        "roles allow.",
    )
    add_verbs(parser, _VERBS, _run, _add_arguments, _DESCRIPTIONS)


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    match verb:
        case "list":
            person = parser.add_argument(
                "--person", metavar="PERSON", help="only tokens of this person: e-mail address, name or ID"
            )
            complete(person, "person")
        case "create":
            _add_create_arguments(parser)
        case "revoke":
            parser.add_argument(
                "token", metavar="TOKEN", help="ID as `list` shows it, or the name of a live one"
            )
            add_yes_argument(parser)


def _add_create_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="what the token is for (by default `made` and the day)"
    )
    parser.add_argument(
        "--scope",
        nargs="+",
        action="extend",
        metavar="S",
        dest="scopes",
        help=f"{', '.join(SCOPES)}: one or several (with --local: all)",
    )
    parser.add_argument(
        "--expires",
        type=parse_duration,
        metavar="TIME",
        dest="expires_seconds",
        help="how long it is valid: 90d (as long as the token of this command; with --local: without end)",
    )
    local = parser.add_argument_group("on the machine of the installation")
    local.add_argument(
        "--local",
        action="store_true",
        help="create it without the API: for a first token, or one in place of a lost one",
    )
    local.add_argument(
        "--account", metavar="ACCOUNT", help="the account: slug, number or ID; by default the only one"
    )
    local.add_argument(
        "--person", metavar="EMAIL", help="the person of the token (the only owner of the account)"
    )


def _run(arguments: argparse.Namespace) -> int:
    if arguments.verb == "create" and arguments.local:
        return _create_locally(arguments)
    if arguments.verb == "create":
        return _create(arguments)
    api = open_api(arguments)
    if arguments.verb == "list":
        person = None if arguments.person is None else str(find_person(api, arguments.person)["id"])
        rows = api.get_all("tokens", query={"person": person})
        return print_result(arguments, rows, lambda rows: _show_list(arguments, rows))
    return _revoke(api, arguments)


def _create_locally(arguments: argparse.Namespace) -> int:
    if arguments.profile is not None:
        raise UsageError("--local and --profile do not go together: --local needs no token.")
    return create_token_locally(
        arguments,
        account=arguments.account,
        person=arguments.person,
        scopes=arguments.scopes,
        name=arguments.name,
        lifetime_seconds=arguments.expires_seconds,
    )


def _create(arguments: argparse.Namespace) -> int:
    for flag, value in (("--account", arguments.account), ("--person", arguments.person)):
        if value is not None:
            raise UsageError(
                f"{flag} goes with --local only: otherwise the token is yours, in the account of the token that this "
                "command uses."
            )
    if arguments.scopes is None:
        raise UsageError("--scope is required, unless --local is given.")
    body = {
        "name": arguments.name or _default_name(),
        "scopes": arguments.scopes,
        "expires_in": arguments.expires_seconds,
    }
    return print_result(
        arguments, open_api(arguments).post("tokens", body=body), _show_created, quiet="api_token"
    )


def _default_name() -> str:
    # Imported here: other verbs do not need it.
    from datetime import UTC, datetime

    return f"made {datetime.now(UTC):%Y-%m-%d}"


def _revoke(api: Api, arguments: argparse.Namespace) -> int:
    token = _find_token(api, arguments.token)
    use = ", which this command uses itself," if token["is_current"] else ""
    described = f"token {token['id']} ({token['name']}) of {token['person']['email']}{use}"
    if not confirm(arguments, f"revoke {described} and refuse all requests with it"):
        return 1
    revoked = api.delete("tokens", str(token["id"]))
    return print_result(
        arguments,
        revoked,
        lambda found: print(f"Token {found['id']} of {found['person']['email']} is revoked."),
    )


def _find_token(api: Api, name: str) -> Row:
    """Return the token with this number, or the live token of this name. Raises `CommandFailed`."""
    if name.isdecimal():
        token: Row = api.get("tokens", name)
        return token
    return choose(
        [token for token in api.get_all("tokens") if token["state"] == "live"],
        name,
        noun="live token",
        keys=lambda row: (str(row["id"]), str(row["name"])),
        label=lambda row: f"{row['id']} ({row['name']})",
    )


def _show_list(arguments: argparse.Namespace, tokens: Sequence[dict[str, Any]]) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.accounts.tables import show_tokens

    show_tokens(arguments, tokens)


def _show_created(token: dict[str, Any]) -> None:
    until = "" if token["expires_at"] is None else f" until {format_utc_minute(token['expires_at'])}"
    print(f"Token {token['id']} of {token['person']['email']}{until}, shown this once:\n{token['api_token']}")
