"""Print accounts, people, tokens and the audit log as tables."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from operator_cli.durations import format_minute
from operator_cli.messages import qualify_commands
from operator_cli.terminal_text import make_cell, print_facts


def show_accounts(accounts: list[dict[str, Any]]) -> None:
    """Print accounts with their limits and sizes."""
    if not accounts:
        print(
            qualify_commands(
                "No accounts yet. `pharos account create NAME --owner-name … --owner-email …` makes one."
            )
        )
        return
    table = Table("ID", "Name", "Slug", "Events/s", "Burst", "People", "Projects", box=None, pad_edge=False)
    for column in table.columns[3:]:
        column.justify = "right"
    for account in accounts:
        rate, burst = format_limits(account)
        table.add_row(
            str(account["number"]),
            make_cell(account["name"]),
            account["slug"],
            rate,
            burst,
            str(account["people_count"]),
            str(account["project_count"]),
        )
    Console().print(table)


def format_limits(account: dict[str, Any]) -> tuple[str, str]:
    """Return the ingest rate in events a second (`1,000` or `0.5`) and the burst in events."""
    limits = account["limits"]
    rate = f"{limits['ingest_events_per_second']:,.3f}".rstrip("0").removesuffix(".")
    return rate, f"{limits['ingest_burst']:,}"


def show_account(account: dict[str, Any]) -> None:
    """Print one account with its limits, people and projects."""
    rate, burst = format_limits(account)
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
        table.add_row(person["role"], make_cell(person["name"]), make_cell(person["email"]))
    Console().print(table)


def show_people(people: list[dict[str, Any]]) -> None:
    """Print people with their accounts and roles."""
    if not people:
        print(qualify_commands("Nobody yet. `pharos person add EMAIL --name NAME` adds somebody."))
        return
    table = Table("E-mail", "Name", "Role", "Account", box=None, pad_edge=False)
    for person in people:
        table.add_row(
            make_cell(person["email"]), make_cell(person["name"]), person["role"], person["account"]["slug"]
        )
    Console().print(table)


def show_tokens(tokens: list[dict[str, Any]]) -> None:
    """Print tokens with their person, scopes, state and last use."""
    if not tokens:
        print(
            qualify_commands(
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
            Text("\n").join([make_cell(token["name"]), make_cell(token["person"]["email"], style="dim")]),
            token["account"]["slug"],
            "\n".join(token["scopes"]),
            _format_token_state(token),
            format_minute(token["last_used_at"]),
        )
    Console().print(table)


def _format_token_state(token: dict[str, Any]) -> Text:
    if token["state"] != "live":
        return Text(token["state"], style="dim")
    return Text("live" if token["expires_at"] is None else f"until {token['expires_at'][:10]}")


def show_audit_entries(entries: list[dict[str, Any]]) -> None:
    """Print audit entries: time (UTC), actor, action, subject and details."""
    if not entries:
        print("The audit log has no such entry.")
        return
    table = Table("UTC, by", "Action", "Subject", box=None, pad_edge=False)
    table.columns[1].no_wrap = True
    for entry in entries:
        time = f"{entry['at'][:10]} {entry['at'][11:19]}"
        subject = [make_cell(entry["subject"])]
        if entry["details"]:
            subject.append(make_cell(_format_details(entry["details"]), style="dim"))
        table.add_row(
            Text("\n").join([Text(time), *_list_actors(entry)]),
            make_cell(entry["action"]),
            Text("\n").join(subject),
        )
    Console().print(table)


def _format_details(details: Mapping[str, Any]) -> str:
    """Return `from=member, to=admin`, with nested details in brackets."""
    return ", ".join(
        f"{name}={_format_detail(value)}" for name, value in details.items() if value is not None
    )


def _format_detail(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"({_format_details(value)})"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return str(value)


def _list_actors(entry: dict[str, Any]) -> list[Text]:
    """Return the person, the token, and the address or operator that an entry names."""
    person = [] if entry["person"] is None else [entry["person"]]
    token = [] if entry["token_id"] is None else [f"token {entry['token_id']}"]
    return [make_cell(line, style="dim") for line in (*person, *token, entry["source"])]
