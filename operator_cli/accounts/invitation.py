"""`pharos invitation list|revoke`; `pharos person invite` makes invitations."""

import argparse
from collections.abc import Sequence
from typing import Any, Final

from operator_cli.api.choose import choose
from operator_cli.api.client import Api, open_api
from operator_cli.arguments import add_verbs
from operator_cli.messages import print_result

_STATES: Final = ("pending", "accepted", "expired", "revoked")
_VERBS: Final = {
    "list": "list invitations to the account, the newest first",
    "revoke": "revoke a pending invitation, so that nobody can join with it",
}


def register_invitation(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "invitation",
        help="invitations of people to the account",
        description="Invitations of people to the account. `pharos person invite` makes one.",
    )
    add_verbs(parser, _VERBS, _run, _add_arguments)


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    if verb == "list":
        parser.add_argument("--state", choices=_STATES, help="only invitations in this state")
    else:
        parser.add_argument(
            "invitation", metavar="INVITATION", help="ID as `list` shows it, or e-mail address"
        )


def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    if arguments.verb == "list":
        rows = api.get_all("invitations", query={"state": arguments.state})
        return print_result(arguments, rows, lambda rows: _show_list(arguments, rows))
    revoked = api.delete("invitations", _find_number(api, arguments.invitation))
    return print_result(
        arguments,
        revoked,
        lambda found: print(f"The invitation of {found['email']} is revoked: nobody can join with it."),
    )


def _find_number(api: Api, name: str) -> str:
    """Return the number of the pending invitation of an address, or the number itself. Raises `CommandFailed`."""
    if name.isdecimal():
        return name
    pending = api.get_all("invitations", query={"state": "pending"})
    found = choose(
        pending,
        name,
        noun="pending invitation",
        keys=lambda row: (str(row["id"]), str(row["email"])),
        label=lambda row: str(row["email"]),
    )
    return str(found["id"])


def _show_list(arguments: argparse.Namespace, invitations: Sequence[dict[str, Any]]) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.accounts.tables import show_invitations

    show_invitations(arguments, invitations)
