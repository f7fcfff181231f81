"""Makes stored text safe to print: it may hold line ends, and escape sequences that would act on the terminal."""

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from operator_cli.messages import qualify_commands

if TYPE_CHECKING:
    from rich.text import Text

_MIN_LABEL_WIDTH = 12
# ECMA-48, 5.4: control sequences, such as those of colours.
_CONTROL_SEQUENCE = re.compile(r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]")


def sanitize(text: str, *, max_length: int = 500) -> str:
    """Return the text on one line, with a space for each unprintable character, cut to `max_length`."""
    if len(text) > max_length:
        text = text[: max_length - 1] + "…"
    return "".join(c if c.isprintable() else " " for c in text)


def remove_colours(text: str) -> str:
    """Return the text without the sequences that set colours or move the cursor."""
    return _CONTROL_SEQUENCE.sub("", text)


def make_cell(text: str, style: str = "", *, max_length: int = 500) -> "Text":
    """Return the sanitized text as a table cell, without interpreting markup."""
    # Imported here and below: commands that only sanitize text do not need it.
    from rich.text import Text

    return Text(sanitize(text, max_length=max_length), style=style)


def sanitize_lines(text: str, *, max_lines: int = 60) -> Iterable[str]:
    """Yield the sanitized lines of the text, and the number of further lines after `max_lines`."""
    lines = text.splitlines()
    yield from (sanitize(line) for line in lines[:max_lines])
    if len(lines) > max_lines:
        yield f"… {len(lines) - max_lines} more lines"


def print_facts(title: str, facts: Mapping[str, str], *, max_length: int = 500) -> None:
    """Print a title, and a line of up to `max_length` characters for each label and value."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    console.print(Text(sanitize(title), style="bold"))
    width = max([_MIN_LABEL_WIDTH, *map(len, facts)])
    for label, value in facts.items():
        console.print(Text(f"{label:<{width}} {sanitize(qualify_commands(value), max_length=max_length)}"))


def replace_control_characters(text: str) -> str:
    """Replace control characters other than line ends and tabs, so that the output of a job cannot control the
    terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
