"""What senders wrote, made fit for a terminal."""

from collections.abc import Iterable

from rich.text import Text


def plain(text: str, *, most: int = 500) -> str:
    """On one line, without line ends and escape sequences: stored text must not act here."""
    if len(text) > most:
        text = text[: most - 1] + "…"
    return "".join(c if c.isprintable() else " " for c in text)


def cell(text: str, style: str = "", *, most: int = 500) -> Text:
    """The same as a table's cell; nothing in it is markup."""
    return Text(plain(text, most=most), style=style)


def block(text: str, *, most_lines: int = 60) -> Iterable[str]:
    """The lines of a longer text, each made plain."""
    lines = text.splitlines()
    yield from (plain(line) for line in lines[:most_lines])
    if len(lines) > most_lines:
        yield f"… {len(lines) - most_lines} more lines"
