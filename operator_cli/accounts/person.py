"""`pharos person list|add|set-role|remove`."""

import argparse
from typing import Any

from operator_cli.arguments import add_account_argument, add_subcommands, add_yes_argument, confirm
from operator_cli.control_client import WHICH_INSTALLATION, request_action
from operator_cli.messages import print_result

_SUBCOMMANDS = {
    "list": "show who is in an account, or in all of them",
    "add": "add a person to an account",
    "set-role": "change the role of a person in an account",
    "remove": "remove a person from an account, with their tokens for it and their roles in its projects",
}
_ROLES = ("owner", "admin", "member")


def register_person(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "person",
        help="add people to an account, list them, change their roles, remove them",
        description="People. Owners and admins of an account may do everything in its projects; a member may do what "
        f"`pharos project grant` allows. {WHICH_INSTALLATION}",
    )
    add_subcommands(parser, _SUBCOMMANDS, _run, _add_arguments)


def _add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    add_account_argument(parser, is_filter=name == "list")
    if name == "list":
        return
    parser.add_argument("email", metavar="EMAIL", help="the person's address; its case does not matter")
    match name:
        case "add":
            parser.add_argument(
                "--name", help="the person's name; not needed for a person who is in another account already"
            )
            parser.add_argument("--role", choices=_ROLES, help="in the account (member)")
        case "set-role":
            parser.add_argument("role", metavar="ROLE", choices=_ROLES, help=", ".join(_ROLES))
        case "remove":
            add_yes_argument(parser)


def _run(arguments: argparse.Namespace) -> int:
    match arguments.subcommand:
        case "list":
            result = request_action(arguments, "people/list", {"account_id": arguments.account_id})
            return print_result(arguments, result, _show_list)
        case "add":
            result = _request(arguments, "people/add", "name", "role")
            return print_result(arguments, result, _show_role)
        case "set-role":
            return print_result(arguments, _request(arguments, "people/role", "role"), _show_role)
    account = "the account" if arguments.account_id is None else f"the account {arguments.account_id}"
    if not confirm(arguments, f"remove {arguments.email} from {account}, with their tokens and roles there"):
        return 1
    return print_result(arguments, _request(arguments, "people/remove"), _show_removed)


def _request(arguments: argparse.Namespace, action: str, *names: str) -> Any:
    params = {name: getattr(arguments, name) for name in ("email", "account_id", *names)}
    return request_action(arguments, action, params)


def _show_list(people: list[dict[str, Any]]) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.accounts.tables import show_people

    show_people(people)


def _show_role(person: dict[str, Any]) -> None:
    print(f"{person['email']} is {person['role']} of the account {person['account']['slug']}.")


def _show_removed(person: dict[str, Any]) -> None:
    print(
        f"{person['email']} is removed from the account {person['account']['slug']}; tokens revoked: "
        f"{person['tokens_revoked']}, roles in projects removed: {person['project_roles_removed']}."
    )
