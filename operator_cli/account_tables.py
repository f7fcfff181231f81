"""Prints accounts, people and tokens as tables."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from operator_cli.durations import show_moment
from operator_cli.facts import print_facts
from operator_cli.plain_text import cell
from operator_cli.typed_commands import typed_commands


def show_accounts(accounts: list[dict[str, Any]]) -> None:
    """Each with its limit and its size."""
    if not accounts:
        print(
            typed_commands(
                "No accounts yet. `pharos account create NAME --owner-name … --owner-email …` makes one."
            )
        )
        return
    table = Table("ID", "Name", "Slug", "Events/s", "Burst", "People", "Projects", box=None, pad_edge=False)
    for column in table.columns[3:]:
        column.justify = "right"
    for account in accounts:
        rate, burst = show_limits(account)
        table.add_row(
            str(account["number"]),
            cell(account["name"]),
            account["slug"],
            rate,
            burst,
            str(account["people_count"]),
            str(account["project_count"]),
        )
    Console().print(table)


def show_limits(account: dict[str, Any]) -> tuple[str, str]:
    """Events a second, `1,000` or `0.5`, and at once."""
    limits = account["limits"]
    rate = f"{limits['ingest_events_per_second']:,.3f}".rstrip("0").removesuffix(".")
    return rate, f"{limits['ingest_burst']:,}"


def show_account(account: dict[str, Any]) -> None:
    """All of one: its limit, its people and its projects."""
    rate, burst = show_limits(account)
    print_facts(
        account["name"],
        {
            "ID": f"{account['number']}, {account['id']}",
            "slug": account["slug"],
            "plan": account["plan"],
            "may send": f"{rate} events/s, {burst} at once",
            "projects": ", ".join(project["slug"] for project in account["projects"]) or "none yet",
        },
    )
    table = Table("Role", "Name", "E-mail", box=None, pad_edge=False)
    for person in account["people"]:
        table.add_row(person["role"], cell(person["name"]), cell(person["email"]))
    Console().print(table)


def show_people(people: list[dict[str, Any]]) -> None:
    """Each with the account and the role in it."""
    if not people:
        print(typed_commands("Nobody yet. `pharos person add EMAIL --name NAME` adds somebody."))
        return
    table = Table("E-mail", "Name", "Role", "Account", box=None, pad_edge=False)
    for person in people:
        table.add_row(cell(person["email"]), cell(person["name"]), person["role"], person["account"]["slug"])
    Console().print(table)


def show_tokens(tokens: list[dict[str, Any]]) -> None:
    """Each with whose it is, what it may do, until when, and when it was last used."""
    if not tokens:
        print(
            typed_commands(
                "No tokens yet. `pharos token create --person EMAIL --scope account:read` makes one."
            )
        )
        return
    table = Table("ID", "Name, person", "Account", "Scopes", "State", "Last used", box=None, pad_edge=False)
    for number in (0, 3, 4, 5):
        table.columns[number].no_wrap = True
    for token in tokens:
        table.add_row(
            str(token["id"]),
            Text("\n").join([cell(token["name"]), cell(token["person"]["email"], style="dim")]),
            token["account"]["slug"],
            "\n".join(token["scopes"]),
            _state(token),
            show_moment(token["last_used_at"]),
        )
    Console().print(table)


def _state(token: dict[str, Any]) -> Text:
    if token["state"] != "live":
        return Text(token["state"], style="dim")
    return Text("live" if token["expires_at"] is None else f"until {token['expires_at'][:10]}")
