"""`pharos person list|add|set-role|remove`."""

import argparse
from typing import Any

from operator_cli.actions import add_actions
from operator_cli.ask import WHICH, ask
from operator_cli.confirm import add_yes_argument, confirmed
from operator_cli.tell import tell

_ACTIONS = {
    "list": "show who is in an account, or in all of them",
    "add": "let somebody into an account",
    "set-role": "give somebody another role in an account",
    "remove": "take somebody out of an account: their tokens for it and their roles in its projects end",
}
_ROLES = ("owner", "admin", "member")


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "person",
        help="let people into an account, list them, change their roles, take them out",
        description="People. Owners and admins of an account may do everything in its projects; a member may do what "
        f"`pharos project grant` allows. {WHICH}",
    )
    add_actions(parser, _ACTIONS, _run, _add_arguments)


def add_account_argument(action: argparse.ArgumentParser, *, is_filter: bool) -> None:
    """`--account`; as a filter it may always be left out."""
    left_out = "all where it is left out" if is_filter else "may be left out where there is only one"
    action.add_argument(
        "--account", metavar="ID", dest="account_id", help=f"number, acc_… or slug; {left_out}"
    )


def _add_arguments(action: argparse.ArgumentParser, name: str) -> None:
    add_account_argument(action, is_filter=name == "list")
    if name == "list":
        return
    action.add_argument("email", metavar="EMAIL", help="the person's address; its case does not matter")
    match name:
        case "add":
            action.add_argument(
                "--name", help="the person's name; not needed for who is in another account already"
            )
            action.add_argument("--role", choices=_ROLES, help="in the account (member)")
        case "set-role":
            action.add_argument("role", metavar="ROLE", choices=_ROLES, help=", ".join(_ROLES))
        case "remove":
            add_yes_argument(action)


def _run(arguments: argparse.Namespace) -> int:
    match arguments.action:
        case "list":
            told = ask(arguments, "people/list", {"account_id": arguments.account_id})
            return tell(arguments, told, _show_list)
        case "add":
            told = _ask(arguments, "people/add", "name", "role")
            return tell(arguments, told, _show_role)
        case "set-role":
            return tell(arguments, _ask(arguments, "people/role", "role"), _show_role)
    account = "the account" if arguments.account_id is None else f"the account {arguments.account_id}"
    if not confirmed(
        arguments, f"take {arguments.email} out of {account}, and end their tokens and roles there"
    ):
        return 1
    return tell(arguments, _ask(arguments, "people/remove"), _show_removed)


def _ask(arguments: argparse.Namespace, action: str, *names: str) -> Any:
    wanted = {name: getattr(arguments, name) for name in ("email", "account_id", *names)}
    return ask(arguments, action, wanted)


def _show_list(people: list[dict[str, Any]]) -> None:
    # Only here: a program that asks for JSON need not wait for what draws tables.
    from operator_cli.account_tables import show_people

    show_people(people)


def _show_role(person: dict[str, Any]) -> None:
    print(f"{person['email']} is {person['role']} of the account {person['account']['slug']}.")


def _show_removed(person: dict[str, Any]) -> None:
    print(
        f"{person['email']} is out of the account {person['account']['slug']}; tokens revoked: "
        f"{person['tokens_revoked']}, roles in projects removed: {person['project_roles_removed']}."
    )
