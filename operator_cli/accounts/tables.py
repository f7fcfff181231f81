"""Print people, invitations and tokens as tables."""

import argparse
from collections.abc import Sequence
from typing import Any, Final

from rich.text import Text

from control_domain.accounts.roles import SCOPES
from operator_cli.durations import format_age
from operator_cli.tables import Column, print_table

_ROLES: Final = ("owner", "admin", "member")


def show_people(arguments: argparse.Namespace, people: Sequence[dict[str, Any]]) -> None:
    """Print people with their roles, owners first."""
    print_table(
        arguments,
        [
            Column("E-mail", wraps=False),
            Column("Name"),
            Column("Role", wraps=False),
            Column("ID", is_id=True, is_optional=True),
        ],
        [
            (person["email"], person["name"], person["role"], person["id"])
            for person in sorted(people, key=lambda each: (_ROLES.index(each["role"]), each["email"]))
        ],
        empty="Nobody yet. `pharos person invite EMAIL` invites somebody.",
    )


def show_invitations(arguments: argparse.Namespace, invitations: Sequence[dict[str, Any]]) -> None:
    """Print invitations with the access that the invited people get."""
    state = arguments.state
    print_table(
        arguments,
        [
            Column("ID", is_number=True),
            Column("E-mail", wraps=False),
            Column("Role"),
            Column("State", wraps=False),
            Column("Invited by", is_optional=True, wraps=False),
        ],
        [
            (
                invitation["id"],
                invitation["email"],
                ", ".join([invitation["role"], *map(_format_project_role, invitation["project_roles"])]),
                _format_invitation_state(invitation),
                invitation["invited_by"]["email"],
            )
            for invitation in invitations
        ],
        empty=(f"No {state} invitations." if state else "No invitations yet.")
        + " `pharos person invite EMAIL` makes one.",
    )


def _format_project_role(entry: dict[str, Any]) -> str:
    return f"{entry['role']} of {entry['project']['slug']}"


def _format_invitation_state(invitation: dict[str, Any]) -> Text:
    if invitation["state"] == "pending":
        return Text(f"pending until {invitation['expires_at'][:10]}")
    return Text(invitation["state"], style="dim")


def show_tokens(arguments: argparse.Namespace, tokens: Sequence[dict[str, Any]]) -> None:
    """Print tokens with their person, scopes, state and last use."""
    print_table(
        arguments,
        [
            Column("ID", is_number=True),
            Column("Name"),
            Column("Person", wraps=False, is_optional=True),
            Column("Scopes"),
            Column("State", wraps=False),
            Column("Last used", wraps=False),
        ],
        [
            (
                token["id"],
                token["name"],
                token["person"]["email"],
                _format_scopes(token["scopes"]),
                _format_token_state(token),
                _format_last_use(token),
            )
            for token in tokens
        ],
        empty="No tokens yet. `pharos token create NAME --scope account:read` makes one.",
    )


def _format_scopes(scopes: Sequence[str]) -> str:
    return "all" if set(scopes) >= set(SCOPES) else ", ".join(scopes)


def _format_token_state(token: dict[str, Any]) -> Text:
    if token["state"] != "live":
        return Text(token["state"], style="dim")
    return Text("live" if token["expires_at"] is None else f"until {token['expires_at'][:10]}")


def _format_last_use(token: dict[str, Any]) -> str:
    if token["is_current"]:
        return "this command"
    return "never" if token["last_used_at"] is None else format_age(token["last_used_at"])
