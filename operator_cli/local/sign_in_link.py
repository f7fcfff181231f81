"""`pharos sign-in-link`: a link with which a person sets a password in the dashboard."""

import argparse
from typing import Any

from operator_cli.arguments import add_output_arguments
from operator_cli.credentials import add_data_argument
from operator_cli.durations import format_utc_minute
from operator_cli.local.door import WHICH_INSTALLATION, request_as_operator
from operator_cli.messages import print_result


def register_sign_in_link(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "sign-in-link",
        help="print a link with which a person sets a password",
        description="Print a link with which a person sets a password in the dashboard: a first one, or another one in "
        "place of a forgotten one. It works once, within 24 hours, and replaces the person's former link. Using it "
        "ends all sessions of the person and removes the second factor and the connected identities of providers. "
        f"{WHICH_INSTALLATION}",
    )
    parser.add_argument("email", nargs="?", metavar="EMAIL", help="the person's address (the only owner's)")
    add_data_argument(parser)
    add_output_arguments(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    # Imported here: `--help` and completion need none of it.
    from pipeline_contracts.operator_requests import CreateSignInLink

    created = request_as_operator(arguments, CreateSignInLink(email=arguments.email))
    return print_result(arguments, created, _show, quiet="url")


def _show(created: dict[str, Any]) -> None:
    until = format_utc_minute(created["expires_at"])
    print(f"Sign-in link of {created['person']['email']}, for one use until {until}:\n{created['url']}")
    if created["url"].startswith("/"):
        print("Put the address of your installation in front of it, such as https://pharos.example.")
