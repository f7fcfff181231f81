"""Print notification rules."""

import argparse
from typing import Any

from rich.text import Text

from operator_cli.notifications.find import format_place
from operator_cli.tables import Column, print_table
from operator_cli.terminal_text import print_facts


def show_rules(arguments: argparse.Namespace, rules: list[dict[str, Any]]) -> None:
    """Print one line for each rule."""
    print_table(
        arguments,
        [
            Column("ID", is_number=True),
            Column("Name"),
            Column("Scope"),
            Column("Kinds"),
            Column("Notifies"),
            Column("Severity", wraps=False, is_optional=True),
            Column("State", wraps=False, is_optional=True),
        ],
        [
            (
                rule["id"],
                rule["name"],
                _format_scope(rule),
                _format_kinds(rule),
                _format_recipients(rule),
                None if rule["min_severity"] == "info" else _format_severity(rule),
                None if rule["enabled"] else Text("off", style="dim"),
            )
            for rule in rules
        ],
        empty="No rules yet: the default rule applies (`pharos rules default`).\n`pharos rules create NAME` makes one.",
    )


def show_rule(rule: dict[str, Any]) -> None:
    """Print one rule."""
    print_facts(
        rule["name"],
        {
            "ID": str(rule["id"]),
            "scope": "all projects and the platform" if rule.get("project") is None else _format_scope(rule),
            "kinds": "those that are on by default" if rule["kinds"] is None else _format_kinds(rule),
            "severity": _format_severity(rule),
            "notifies": _format_recipients(rule),
            "reminders": "on" if rule["reminders"] else "off",
            "state": "on" if rule["enabled"] else "off",
        },
    )


def show_default_rule(rule: dict[str, Any]) -> None:
    """Print the rule of an account without rules of its own."""
    print_facts(
        "Default rule",
        {
            "applies": "to the platform, and to projects without a rule"
            if rule["applies"]
            else "no, a rule is about the whole account",
            "notifies": _format_recipients(rule),
            "by": "e-mail" if rule["sends_email"] else "nothing: the installation sends no e-mail",
            "kinds": "kinds that are on by default: `pharos rules kinds` lists them",
        },
    )
    if rule.get("nobody") is not None:
        print(f"\n{rule['nobody']}")


def show_kinds(arguments: argparse.Namespace, kinds: list[dict[str, Any]]) -> None:
    """Print the kinds of alerts."""
    print_table(
        arguments,
        [
            Column("Kind", wraps=False),
            Column("Severity", wraps=False),
            Column("Default", wraps=False),
            Column("Meaning"),
        ],
        [(kind["name"], kind["severity"], kind["default"], kind["meaning"]) for kind in kinds],
        empty="No kinds.",
    )


def _format_scope(rule: dict[str, Any]) -> str:
    return "all" if rule.get("project") is None else format_place(rule)


def _format_severity(rule: dict[str, Any]) -> str:
    severity = str(rule["min_severity"])
    return "all" if severity == "info" else severity if severity == "critical" else f"{severity} and above"


def _format_kinds(rule: dict[str, Any]) -> str:
    return "default" if rule["kinds"] is None else ", ".join(rule["kinds"])


def _format_recipients(rule: dict[str, Any]) -> str:
    return ", ".join(map(_format_recipient, rule["recipients"])) or "nobody"


def _format_recipient(recipient: dict[str, Any]) -> str:
    if (channel := recipient.get("channel")) is not None:
        return str(channel["name"])
    return str(recipient["person"]["email"])
