"""`pharos token list|create|revoke`: API tokens."""

import argparse
from typing import Any

from control_domain.accounts.roles import SCOPES
from operator_cli.arguments import add_account_argument, add_subcommands, add_yes_argument, confirm
from operator_cli.control_client import WHICH_INSTALLATION, request_action
from operator_cli.durations import parse_duration
from operator_cli.errors import UsageError
from operator_cli.local.tokens import create_token_locally
from operator_cli.messages import print_result

_SUBCOMMANDS = {
    "list": "list tokens with their person, scopes and last use",
    "create": "create a token; its secret is shown once",
    "revoke": "revoke a token, from its next request on",
}


def register_token(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "token",
        help="list, create or revoke API tokens",
        description="API tokens: each represents a person in an account, and may do what its scopes and the person's "
        f"roles allow. {WHICH_INSTALLATION}",
    )
    add_subcommands(parser, _SUBCOMMANDS, _run, _add_arguments)


def _add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    match name:
        case "list":
            add_account_argument(parser, is_filter=True)
        case "create":
            parser.add_argument(
                "--local",
                action="store_true",
                help="create it without the API, on the machine of the installation: for a first token",
            )
            parser.add_argument(
                "--person",
                metavar="EMAIL",
                help="the person whom it represents, in the account (with --local: its owner)",
            )
            add_account_argument(parser, is_filter=False)
            parser.add_argument(
                "--scope",
                nargs="+",
                action="extend",
                metavar="S",
                dest="scopes",
                help=f"{', '.join(SCOPES)}: one or several (with --local: all)",
            )
            parser.add_argument("--name", help="what the token is for (by default `made` and the day)")
            parser.add_argument(
                "--expires",
                type=parse_duration,
                metavar="TIME",
                dest="expires_seconds",
                help="how long it is valid: 90d (without end)",
            )
        case "revoke":
            parser.add_argument("id", type=int, metavar="ID", help="ID as `list` shows it")
            add_yes_argument(parser)


def _run(arguments: argparse.Namespace) -> int:
    match arguments.subcommand:
        case "list":
            result = request_action(arguments, "tokens/list", {"account_id": arguments.account_id})
            return print_result(arguments, result, _show_list)
        case "create" if arguments.local:
            return create_token_locally(
                arguments,
                account=arguments.account_id,
                person=arguments.person,
                scopes=arguments.scopes,
                name=arguments.name,
                lifetime_seconds=arguments.expires_seconds,
            )
        case "create":
            for flag, value in (("--person", arguments.person), ("--scope", arguments.scopes)):
                if not value:
                    raise UsageError(f"{flag} is required, unless --local is given.")
            names = ("person", "account_id", "scopes", "name", "expires_seconds")
            params = {name: getattr(arguments, name) for name in names}
            return print_result(arguments, request_action(arguments, "tokens/create", params), _show_created)
    if not confirm(arguments, f"revoke token {arguments.id}, and refuse all requests with it"):
        return 1
    return print_result(
        arguments, request_action(arguments, "tokens/revoke", {"id": arguments.id}), _show_revoked
    )


def _show_list(tokens: list[dict[str, Any]]) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.accounts.tables import show_tokens

    show_tokens(tokens)


def _show_created(token: dict[str, Any]) -> None:
    until = "" if token["expires_at"] is None else f" until {token['expires_at'][:16].replace('T', ' ')} UTC"
    print(
        f"Token {token['id']} of {token['person']['email']} for the account {token['account']['slug']}{until}, "
        f"shown this once:\n{token['api_token']}"
    )


def _show_revoked(token: dict[str, Any]) -> None:
    print(f"Token {token['id']} of {token['person']['email']} is revoked.")
