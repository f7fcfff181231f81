"""Print a trace as a tree: each span below its parent, with a bar for its part of the trace's duration."""

from collections.abc import Iterator
from typing import Any, Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from operator_cli.durations import format_duration
from operator_cli.terminal_text import sanitize

Span = dict[str, Any]
"""A span of `tree` as the API returns it."""

_BAR_WIDTH: Final = 24
_MAX_ROWS: Final = 500
_MAX_DEPTH: Final = 20


def show_trace(trace: dict[str, Any]) -> None:
    """Print a trace of `GET …/traces/{trace}`."""
    spans = trace["tree"]
    table = Table("Span", box=None, pad_edge=False)
    table.add_column("Service", max_width=20, overflow="ellipsis", no_wrap=True)
    table.add_column("Took", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, min_width=_BAR_WIDTH)
    for span in spans[:_MAX_ROWS]:
        failed = span["status"] == "Error"
        indent = "  " * min(span["depth"], _MAX_DEPTH)
        table.add_row(
            Text(indent + sanitize(span["name"], max_length=80), style="bold red" if failed else ""),
            sanitize(span["service"] or "-", max_length=100),
            format_duration(span["duration_ms"] / 1000),
            Text(_draw_bar(span, trace["duration_ms"]), style="red" if failed else "cyan"),
        )
        for line in _describe_events(span):
            table.add_row(Padding(Text(line, style="dim"), (0, 0, 0, len(indent) + 2)))
    if len(spans) > _MAX_ROWS:
        table.add_row(f"… {len(spans) - _MAX_ROWS} more spans; --json has all")
    console = Console(highlight=False)
    count = f"The first {len(spans):,} spans" if trace["truncated"] else f"{len(spans):,} spans"
    console.print(f"{trace['id']}\n{count}, {format_duration(trace['duration_ms'] / 1000)}", soft_wrap=True)
    console.print(table)


def _draw_bar(span: Span, whole_ms: float) -> str:
    whole = max(whole_ms, 1e-6)
    begin: int = min(int(_BAR_WIDTH * span["offset_ms"] / whole), _BAR_WIDTH - 1)
    length: int = max(1, round(_BAR_WIDTH * span["duration_ms"] / whole))
    return " " * begin + "━" * min(length, _BAR_WIDTH - begin)


def _describe_events(span: Span) -> Iterator[str]:
    """Yield the status message and the events of a span."""
    if span["status_message"]:
        yield sanitize(span["status_message"], max_length=120)
    for event in span["events"]:
        if event["name"] == "exception":
            attributes = event["attributes"]
            # Leave out the module, because the line would be wrapped.
            kind = attributes.get("exception.type", "").rpartition(".")[2]
            yield sanitize(f"✗ {kind}: {attributes.get('exception.message', '')}", max_length=120)
        else:
            yield sanitize(f"• {event['name']}", max_length=120)
