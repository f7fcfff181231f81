"""`pharos account list|show|create|set-limit`."""

import argparse
from typing import Any

from operator_cli.arguments import add_subcommands
from operator_cli.control_client import WHICH_INSTALLATION, request_action
from operator_cli.messages import print_result, program_name

_SUBCOMMANDS = {
    "list": "list accounts with their limits",
    "show": "show one with its people and projects",
    "create": "create an account with its owner",
    "set-limit": "set how fast it may send, at every edge within 5 s; if PHAROS_INGEST_RATE or PHAROS_INGEST_BURST is "
    "set, the next start of `pharos up` resets its first account to that",
}


def register_account(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "account",
        help="create, list and show accounts, and limit how fast they may send",
        description=f"Accounts: each has its own people, projects, tokens and limits. {WHICH_INSTALLATION}",
    )
    add_subcommands(parser, _SUBCOMMANDS, _run, _add_arguments)


def _add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    match name:
        case "show":
            parser.add_argument(
                "id",
                nargs="?",
                metavar="ID",
                help="number, acc_… or slug; may be left out where there is only one",
            )
        case "create":
            parser.add_argument("name", metavar="NAME", help="what it is called")
            parser.add_argument("--slug", help="its short name in commands (made from the name)")
            parser.add_argument("--owner-name", required=True, metavar="NAME", help="who owns it")
            parser.add_argument(
                "--owner-email",
                required=True,
                metavar="EMAIL",
                help="the owner's address; a person who is in another account already keeps their name",
            )
        case "set-limit":
            parser.add_argument("id", metavar="ID", help="number, acc_… or slug")
            parser.add_argument("--rate", type=float, required=True, metavar="R", help="events a second")
            parser.add_argument("--burst", type=int, required=True, metavar="B", help="events at once")


def _run(arguments: argparse.Namespace) -> int:
    match arguments.subcommand:
        case "list":
            return print_result(arguments, request_action(arguments, "accounts/list"), _show_list)
        case "show":
            return print_result(
                arguments, request_action(arguments, "accounts/show", {"id": arguments.id}), _show_one
            )
        case "create":
            names = ("name", "slug", "owner_name", "owner_email")
            params = {name: getattr(arguments, name) for name in names}
            return print_result(
                arguments, request_action(arguments, "accounts/create", params), _show_created
            )
    params = {"id": arguments.id, "rate": arguments.rate, "burst": arguments.burst}
    return print_result(arguments, request_action(arguments, "accounts/limit", params), _show_limit)


def _show_list(accounts: list[dict[str, Any]]) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.accounts.tables import show_accounts

    show_accounts(accounts)


def _show_one(account: dict[str, Any]) -> None:
    from operator_cli.accounts.tables import show_account

    show_account(account)


def _show_created(account: dict[str, Any]) -> None:
    slug, email = account["slug"], account["owner"]["email"]
    print(f"Account {account['number']}, {account['id']}, is {slug}; its owner is {email}. To go on:")
    print(f"  {program_name()} project create NAME --account {slug}")
    print(
        f"  {program_name()} token create --account {slug} --person {email} --scope deploy:read deploy:write"
    )


def _show_limit(account: dict[str, Any]) -> None:
    from operator_cli.accounts.tables import format_limits

    rate, burst = format_limits(account)
    print(f"The account {account['slug']} may send {rate} events a second, {burst} at once.")
