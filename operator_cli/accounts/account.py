"""`pharos account list|show|create|set-limit`."""

import argparse
from typing import Any

from operator_cli.control_client import WHICH_INSTALLATION, add_data_and_json_arguments, request_action
from operator_cli.local.accounts import add_local_account_verbs
from operator_cli.messages import print_result


def register_account(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "account",
        help="create, list and show accounts, and limit how fast they may send",
        description=f"Accounts: each has its own people, projects, tokens and limits. {WHICH_INSTALLATION}",
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True, dest="verb")
    add_local_account_verbs(verbs)
    show = verbs.add_parser(
        "show",
        help="show one with its people and projects",
        description="Show one with its people and projects.",
    )
    show.add_argument(
        "id", nargs="?", metavar="ID", help="number, acc_… or slug; may be left out where there is only one"
    )
    add_data_and_json_arguments(show)
    show.set_defaults(run=_show)


def _show(arguments: argparse.Namespace) -> int:
    account = request_action(arguments, "accounts/show", {"id": arguments.id})
    return print_result(arguments, account, _show_one)


def _show_one(account: dict[str, Any]) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.accounts.tables import show_account

    show_account(account)
