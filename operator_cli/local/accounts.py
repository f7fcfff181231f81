"""`pharos account list|create|set-limit`, which are above all accounts, and so for the operator of the machine."""

import argparse
from collections.abc import Sequence
from typing import Any, Final

from operator_cli.arguments import add_output_arguments
from operator_cli.credentials import add_data_argument
from operator_cli.local.door import WHICH_INSTALLATION, request_as_operator
from operator_cli.messages import print_result, program_name

LOCAL_ACCOUNT_VERBS: Final = {
    "list": "list all accounts of the installation with their limits",
    "create": "create an account with its owner",
    "set-limit": "set how fast an account may send",
}
_DESCRIPTIONS: Final = {
    "set-limit": "Every edge follows within 5 s. If PHAROS_INGEST_RATE or PHAROS_INGEST_BURST is set, the next start "
    "of `pharos up` resets its first account to that. ",
}


def add_local_account_verbs(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add these verbs to those of `pharos account`."""
    for verb, summary in LOCAL_ACCOUNT_VERBS.items():
        description = f"{summary[0].upper()}{summary[1:]}. {_DESCRIPTIONS.get(verb, '')}{WHICH_INSTALLATION}"
        parser = verbs.add_parser(verb, help=f"{summary} (operator)", description=description)
        match verb:
            case "create":
                parser.add_argument("name", metavar="NAME", help="what it is called")
                parser.add_argument("--slug", help="the short name for commands (made from the name)")
                parser.add_argument("--owner-name", required=True, metavar="NAME", help="who owns it")
                parser.add_argument(
                    "--owner-email",
                    required=True,
                    metavar="EMAIL",
                    help="the owner's address; a person who is in another account already keeps their name",
                )
            case "set-limit":
                parser.add_argument("account", metavar="ACCOUNT", help="the account: its slug, number or ID")
                parser.add_argument("--rate", type=float, required=True, metavar="R", help="events a second")
                parser.add_argument("--burst", type=int, required=True, metavar="B", help="events at once")
        add_data_argument(parser)
        add_output_arguments(parser)
        parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    # Imported here and below: `--help` and completion need none of it.
    from pipeline_contracts.operator_requests import CreateAccount, LimitAccount, ListAccounts

    match arguments.verb:
        case "list":
            rows = request_as_operator(arguments, ListAccounts())
            return print_result(arguments, rows, lambda rows: _show_list(arguments, rows))
        case "create":
            request = CreateAccount(
                name=arguments.name,
                slug=arguments.slug,
                owner_name=arguments.owner_name,
                owner_email=arguments.owner_email,
            )
            created = request_as_operator(arguments, request)
            return print_result(arguments, created, _show_created)
    limit = LimitAccount(account=arguments.account, rate=arguments.rate, burst=arguments.burst)
    return print_result(arguments, request_as_operator(arguments, limit), _show_limit)


def _show_list(arguments: argparse.Namespace, accounts: Sequence[dict[str, Any]]) -> None:
    from operator_cli.tables import Column, print_table

    print_table(
        arguments,
        [
            Column("Slug", wraps=False),
            Column("Name", wraps=False),
            Column("People", wraps=False, is_optional=True),
            Column("Projects", wraps=False, is_optional=True),
            Column("Events/s", wraps=False),
            Column("At once", wraps=False),
            Column("ID", is_id=True, is_optional=True),
        ],
        [
            (
                account["slug"],
                account["name"],
                account["people_count"],
                account["project_count"],
                *_format_limit(account),
                account["id"],
            )
            for account in accounts
        ],
        empty="No accounts yet. `pharos account create NAME` makes one.",
    )


def _show_created(created: dict[str, Any]) -> None:
    slug, owner = created["slug"], created["owner"]
    print(f"Account {slug} ({created['id']}) is created; its owner is {owner['email']}.")
    if created["is_owner_renamed"]:
        print(f"{owner['email']} is known as {owner['name']} from another account, and keeps that name.")
    print("For a first token, with which everything else is done:")
    print(f"  {program_name()} token create --local --account {slug}")


def _show_limit(account: dict[str, Any]) -> None:
    rate, burst = _format_limit(account)
    print(f"The account {account['slug']} may send {rate} events a second, {burst} at once.")


def _format_limit(account: dict[str, Any]) -> tuple[str, str]:
    """Return rate and burst with separators: `5,000`, `0.5`."""
    limits = account["limits"]
    rate = limits["ingest_events_per_second"]
    return (f"{rate:,.0f}" if rate == int(rate) else f"{rate:,}"), f"{limits['ingest_burst']:,}"
