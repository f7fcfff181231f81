"""Prints what there is to know of one thing."""

from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from operator_cli.plain_text import plain
from operator_cli.typed_commands import typed_commands


def print_facts(name: str, facts: Mapping[str, str], *, most: int = 500) -> None:
    """A name, and the facts, a line each of up to `most` characters."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(Text(plain(name), style="bold"))
    for label, value in facts.items():
        console.print(Text(f"{label:<12} {plain(typed_commands(value), most=most)}"))
