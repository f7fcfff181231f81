"""`pharos person list|show|invite|set-role|remove`."""

import argparse
from typing import Any, Final

from operator_cli.accounts.find_person import find_person
from operator_cli.accounts.invite import ROLES, add_invite_arguments, invite
from operator_cli.api.client import open_api
from operator_cli.arguments import add_verbs, add_yes_argument, complete, confirm
from operator_cli.messages import print_result

_VERBS: Final = {
    "list": "list the people in the account with their roles",
    "show": "show a person",
    "invite": "invite somebody to the account",
    "set-role": "change the role of a person in the account",
    "remove": "remove a person with their tokens and their roles in projects",
}
_DESCRIPTIONS: Final = {
    "invite": "Prints what the person needs to join with `pharos login URL --invitation`, once: Pharos sends no "
    "e-mail. Their first token has the scopes of your token.",
    "set-role": "Only an owner can make somebody an owner, or change the role of an owner.",
    "remove": "Owners and admins can remove others, only owners can remove owners, and everybody may "
    "remove themselves. The last owner cannot be removed.",
}


def register_person(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "person",
        help="people in the account, and their roles",
        description="People in the account. Owners and admins may do everything in its projects; a member may do what "
        "`pharos project grant` allows.",
    )
    add_verbs(parser, _VERBS, _run, _add_arguments, _DESCRIPTIONS)


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    if verb == "list":
        return
    if verb == "invite":
        add_invite_arguments(parser)
        return
    person = parser.add_argument("person", metavar="PERSON", help="e-mail address, name or ID")
    complete(person, "person")
    if verb == "set-role":
        parser.add_argument("role", metavar="ROLE", choices=ROLES, help=", ".join(ROLES))
    if verb == "remove":
        add_yes_argument(parser)


def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    match arguments.verb:
        case "list":
            return print_result(
                arguments, api.get_all("people"), lambda people: _show_list(arguments, people)
            )
        case "invite":
            return invite(api, arguments)
    person = find_person(api, arguments.person)
    match arguments.verb:
        case "show":
            return print_result(arguments, person, _show_one)
        case "set-role":
            changed = api.patch("people", str(person["id"]), body={"role": arguments.role})
            return print_result(
                arguments,
                changed,
                lambda found: print(f"{found['email']} is {found['role']} of the account."),
            )
    if not confirm(arguments, f"remove {person['email']} from the account, with their tokens and roles"):
        return 1
    return print_result(arguments, api.delete("people", str(person["id"])), _show_removed)


def _show_list(arguments: argparse.Namespace, people: list[dict[str, Any]]) -> None:
    # Imported here and below: rich is slow to import, and --json needs none of it.
    from operator_cli.accounts.tables import show_people

    show_people(arguments, people)


def _show_one(person: dict[str, Any]) -> None:
    from operator_cli.terminal_text import print_facts

    projects = (
        "`pharos project members` lists the roles in a project"
        if person["role"] == "member"
        else f"may do everything in all of them, as {person['role']}"
    )
    print_facts(
        person["name"],
        {"e-mail": person["email"], "role": person["role"], "projects": projects, "ID": person["id"]},
    )


def _show_removed(person: dict[str, Any]) -> None:
    print(
        f"{person['email']} is removed from the account; tokens revoked: {person['tokens']}, roles in projects "
        f"removed: {person['project_roles']}."
    )
