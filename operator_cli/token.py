"""`pharos token list|create|revoke`: API tokens."""

import argparse
from typing import Any

from operator_cli.actions import add_actions
from operator_cli.ask import WHICH, ask
from operator_cli.confirm import add_yes_argument, confirmed
from operator_cli.durations import parse_duration
from operator_cli.person import add_account_argument
from operator_cli.tell import tell

_ACTIONS = {
    "list": "show each with whose it is, what it may do, and when it was last used",
    "create": "make one; its secret is shown once",
    "revoke": "let it work no more, from its next request on",
}


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "token",
        help="list, make or revoke API tokens",
        description="API tokens: each stands for a person in an account, and may do what its scopes and the person's "
        f"roles allow. {WHICH}",
    )
    add_actions(parser, _ACTIONS, _run, _add_arguments)


def _add_arguments(action: argparse.ArgumentParser, name: str) -> None:
    match name:
        case "list":
            add_account_argument(action, is_filter=True)
        case "create":
            action.add_argument(
                "--person", required=True, metavar="EMAIL", help="whom it stands for: somebody in the account"
            )
            add_account_argument(action, is_filter=False)
            action.add_argument(
                "--scope",
                nargs="+",
                action="extend",
                required=True,
                metavar="S",
                dest="scopes",
                help="account:read, analytics:read, deploy:read, deploy:write: one or several",
            )
            action.add_argument("--name", help="what it is for (made and the day)")
            action.add_argument(
                "--expires",
                type=parse_duration,
                metavar="TIME",
                dest="expires_seconds",
                help="works for so long: 90d (without end)",
            )
        case "revoke":
            action.add_argument("id", type=int, metavar="ID", help="ID as `list` shows it")
            add_yes_argument(action)


def _run(arguments: argparse.Namespace) -> int:
    match arguments.action:
        case "list":
            told = ask(arguments, "tokens/list", {"account_id": arguments.account_id})
            return tell(arguments, told, _show_list)
        case "create":
            names = ("person", "account_id", "scopes", "name", "expires_seconds")
            wanted = {name: getattr(arguments, name) for name in names}
            return tell(arguments, ask(arguments, "tokens/create", wanted), _show_made)
    if not confirmed(arguments, f"revoke token {arguments.id}, and turn away whoever uses it"):
        return 1
    return tell(arguments, ask(arguments, "tokens/revoke", {"id": arguments.id}), _show_revoked)


def _show_list(tokens: list[dict[str, Any]]) -> None:
    # Only here: a program that asks for JSON need not wait for what draws tables.
    from operator_cli.account_tables import show_tokens

    show_tokens(tokens)


def _show_made(token: dict[str, Any]) -> None:
    until = "" if token["expires_at"] is None else f" until {token['expires_at'][:16].replace('T', ' ')} UTC"
    print(
        f"Token {token['id']} of {token['person']['email']} for the account {token['account']['slug']}{until}, "
        f"shown this once:\n{token['api_token']}"
    )


def _show_revoked(token: dict[str, Any]) -> None:
    print(f"Token {token['id']} of {token['person']['email']} is revoked.")
