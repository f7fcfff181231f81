"""A trace as a tree: each span below its parent, with a bar where it lies in the trace's time."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from operator_cli.durations import show_duration
from operator_cli.plain_text import plain

Span = dict[str, Any]

_BAR = 32
_MOST_ROWS = 500


def in_order(spans: Sequence[Span]) -> Iterator[tuple[int, Span]]:
    """(depth, span), parents before their children. A span whose parent is not there begins a tree of its own, and so
    does one of each circle of parents."""
    by_id = {span["span_id"]: span for span in spans}
    children: dict[str, list[Span]] = {}
    roots = []
    for span in spans:
        if span["parent_span_id"] in by_id and span["parent_span_id"] != span["span_id"]:
            children.setdefault(span["parent_span_id"], []).append(span)
        else:
            roots.append(span)
    seen: set[int] = set()
    # Whatever no root leads to lies on a circle, or hangs on one.
    for begin in (*roots, *spans):
        waiting = [(0, begin)]
        while waiting:
            depth, span = waiting.pop()
            if id(span) in seen:
                continue
            seen.add(id(span))
            yield depth, span
            waiting += [(depth + 1, child) for child in reversed(children.get(span["span_id"], []))]


def show_trace(spans: Sequence[Span]) -> None:
    """Print the tree."""
    start = min(span["started_ns"] for span in spans)
    end = max(span["started_ns"] + span["duration_ns"] for span in spans)
    table = Table("Span", "Service", box=None, pad_edge=False)
    table.add_column("Took", justify="right")
    table.add_column("", no_wrap=True)
    for row, (depth, span) in enumerate(in_order(spans)):
        if row == _MOST_ROWS:
            table.add_row(f"… {len(spans) - _MOST_ROWS} more spans; --json has all")
            break
        failed = span["status"] == "Error"
        table.add_row(
            Text("  " * min(depth, 20) + plain(span["name"], most=80), style="bold red" if failed else ""),
            plain(span["service"], most=30),
            show_duration(span["duration_ns"] / 1e9),
            Text(_bar(span, start, end), style="red" if failed else "cyan"),
        )
        for line in _notes(span):
            table.add_row(Text("  " * (min(depth, 20) + 1) + line, style="dim"))
    console = Console()
    console.print(f"{len(spans)} spans, {show_duration((end - start) / 1e9)}", highlight=False)
    console.print(table)


def _bar(span: Span, start: int, end: int) -> str:
    whole = max(1, end - start)
    begin: int = _BAR * (span["started_ns"] - start) // whole
    length: int = max(1, round(_BAR * span["duration_ns"] / whole))
    begin = min(begin, _BAR - 1)
    return " " * begin + "━" * min(length, _BAR - begin)


def _notes(span: Span) -> Iterator[str]:
    if span["status_message"]:
        yield plain(span["status_message"], most=120)
    for name, attributes in zip(span["event_names"], span["event_attributes"], strict=True):
        if name == "exception":
            kind, message = attributes.get("exception.type", ""), attributes.get("exception.message", "")
            yield plain(f"✗ {kind}: {message}", most=120)
        else:
            yield plain(f"• {name}", most=120)
