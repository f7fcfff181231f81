"""`pharos account list|show|create|set-limit`."""

import argparse
from typing import Any

from operator_cli.actions import add_actions
from operator_cli.ask import WHICH, ask
from operator_cli.tell import tell
from operator_cli.typed_commands import program

_ACTIONS = {
    "list": "show each with its limit",
    "show": "show one with its people and projects",
    "create": "make one, with its owner",
    "set-limit": "let it send faster or slower, at every edge within 5 s; where PHAROS_INGEST_RATE or "
    "PHAROS_INGEST_BURST is set, the first account of `pharos up` gets that again at the next start",
}


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "account",
        help="make, list and show accounts, and limit how fast they may send",
        description=f"Accounts: whose people, projects, tokens and limits are kept apart. {WHICH}",
    )
    add_actions(parser, _ACTIONS, _run, _add_arguments)


def _add_arguments(action: argparse.ArgumentParser, name: str) -> None:
    match name:
        case "show":
            action.add_argument(
                "id",
                nargs="?",
                metavar="ID",
                help="number, acc_… or slug; may be left out where there is only one",
            )
        case "create":
            action.add_argument("name", metavar="NAME", help="what it is called")
            action.add_argument("--slug", help="its short name in commands (made from the name)")
            action.add_argument("--owner-name", required=True, metavar="NAME", help="who owns it")
            action.add_argument(
                "--owner-email",
                required=True,
                metavar="EMAIL",
                help="the owner's address; who is known by it from another account keeps their name",
            )
        case "set-limit":
            action.add_argument("id", metavar="ID", help="number, acc_… or slug")
            action.add_argument("--rate", type=float, required=True, metavar="R", help="events a second")
            action.add_argument("--burst", type=int, required=True, metavar="B", help="events at once")


def _run(arguments: argparse.Namespace) -> int:
    match arguments.action:
        case "list":
            return tell(arguments, ask(arguments, "accounts/list"), _show_list)
        case "show":
            return tell(arguments, ask(arguments, "accounts/show", {"id": arguments.id}), _show_one)
        case "create":
            names = ("name", "slug", "owner_name", "owner_email")
            wanted = {name: getattr(arguments, name) for name in names}
            return tell(arguments, ask(arguments, "accounts/create", wanted), _show_made)
    wanted = {"id": arguments.id, "rate": arguments.rate, "burst": arguments.burst}
    return tell(arguments, ask(arguments, "accounts/limit", wanted), _show_limit)


def _show_list(accounts: list[dict[str, Any]]) -> None:
    # Only here: a program that asks for JSON need not wait for what draws tables.
    from operator_cli.account_tables import show_accounts

    show_accounts(accounts)


def _show_one(account: dict[str, Any]) -> None:
    from operator_cli.account_tables import show_account

    show_account(account)


def _show_made(account: dict[str, Any]) -> None:
    slug, email = account["slug"], account["owner"]["email"]
    print(f"Account {account['number']}, {account['id']}, is {slug}; its owner is {email}. To go on:")
    print(f"  {program()} project create NAME --account {slug}")
    print(f"  {program()} token create --account {slug} --person {email} --scope deploy:read deploy:write")


def _show_limit(account: dict[str, Any]) -> None:
    from operator_cli.account_tables import show_limits

    rate, burst = show_limits(account)
    print(f"The account {account['slug']} may send {rate} events a second, {burst} at once.")
