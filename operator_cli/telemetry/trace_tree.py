"""Print a trace as a tree: each span below its parent, with a bar for its part of the trace's duration."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from operator_cli.durations import format_duration
from operator_cli.terminal_text import sanitize

Span = dict[str, Any]

_BAR_WIDTH = 32
_MAX_ROWS = 500


def walk_spans(spans: Sequence[Span]) -> Iterator[tuple[int, Span]]:
    """Yield (depth, span), parents before their children.

    A span without a stored parent starts a tree of its own, and so does one span of each cycle of parents.
    """
    by_id = {span["span_id"]: span for span in spans}
    children: dict[str, list[Span]] = {}
    roots = []
    for span in spans:
        if span["parent_span_id"] in by_id and span["parent_span_id"] != span["span_id"]:
            children.setdefault(span["parent_span_id"], []).append(span)
        else:
            roots.append(span)
    seen: set[int] = set()
    # Spans that no root reaches are on a cycle, or below one.
    for root in (*roots, *spans):
        pending = [(0, root)]
        while pending:
            depth, span = pending.pop()
            if id(span) in seen:
                continue
            seen.add(id(span))
            yield depth, span
            pending += [(depth + 1, child) for child in reversed(children.get(span["span_id"], []))]


def show_trace(spans: Sequence[Span]) -> None:
    start = min(span["started_ns"] for span in spans)
    end = max(span["started_ns"] + span["duration_ns"] for span in spans)
    table = Table("Span", "Service", box=None, pad_edge=False)
    table.add_column("Took", justify="right")
    table.add_column("", no_wrap=True)
    for row, (depth, span) in enumerate(walk_spans(spans)):
        if row == _MAX_ROWS:
            table.add_row(f"… {len(spans) - _MAX_ROWS} more spans; --json has all")
            break
        failed = span["status"] == "Error"
        table.add_row(
            Text(
                "  " * min(depth, 20) + sanitize(span["name"], max_length=80),
                style="bold red" if failed else "",
            ),
            sanitize(span["service"], max_length=30),
            format_duration(span["duration_ns"] / 1e9),
            Text(_draw_bar(span, start, end), style="red" if failed else "cyan"),
        )
        for line in _describe_events(span):
            table.add_row(Text("  " * (min(depth, 20) + 1) + line, style="dim"))
    console = Console()
    console.print(f"{len(spans)} spans, {format_duration((end - start) / 1e9)}", highlight=False)
    console.print(table)


def _draw_bar(span: Span, start: int, end: int) -> str:
    whole = max(1, end - start)
    begin: int = _BAR_WIDTH * (span["started_ns"] - start) // whole
    length: int = max(1, round(_BAR_WIDTH * span["duration_ns"] / whole))
    begin = min(begin, _BAR_WIDTH - 1)
    return " " * begin + "━" * min(length, _BAR_WIDTH - begin)


def _describe_events(span: Span) -> Iterator[str]:
    """Yield the status message and the events of a span."""
    if span["status_message"]:
        yield sanitize(span["status_message"], max_length=120)
    for name, attributes in zip(span["event_names"], span["event_attributes"], strict=True):
        if name == "exception":
            kind, message = attributes.get("exception.type", ""), attributes.get("exception.message", "")
            yield sanitize(f"✗ {kind}: {message}", max_length=120)
        else:
            yield sanitize(f"• {name}", max_length=120)
