"""Prints verdicts as a table and as JSON."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from loadtests.switching.verdict import Verdict

_NOTES = """\
Failed: refused, reset, cut, not 2xx, another body than was sent, or a response of a release that was no longer live.
Of each 20 requests, which are due by the clock, 12 are GETs and 8 are POSTs; one of either takes 300 ms by itself. A
stream is always open: when one has ended, the next is opened. Latencies count from the due time, without the 300 ms
and without streams.
In flight: POSTs and streams in flight in a killed process. It is unknown whether they were processed, so they get 502
or are cut. GETs are retried on another process; one that fails counts as failed.
Again: GETs that the caller sent again because a kept connection was closed at that moment, as HTTP clients do."""


def show_table(console: Console, verdicts: Sequence[tuple[str, Verdict]]) -> None:
    """Print the table of each front, and the failures."""
    table = Table("Front", "Operation", box=None, pad_edge=False)
    for heading in (
        "Seconds",
        "Requests",
        "Failed",
        "In flight",
        "Again",
        "p50 ms",
        "p99 ms",
        "Slowest ms",
        "CPU µs",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Note")
    before = ""
    for front, one in verdicts:
        if before and front != before:
            table.add_section()
        table.add_row(
            front if front != before else "",
            one.operation,
            f"{one.seconds:.1f}",
            f"{one.requests:,}",
            f"[red]{one.failed}[/]" if one.failed else "0",
            str(one.in_flight or ""),
            str(one.repeated or ""),
            f"{one.p50:.1f}",
            f"{one.p99:.1f}",
            f"{one.slowest:,.0f}",
            f"{one.cpu_us:,.0f}",
            one.note,
        )
        before = front
    console.print(table)
    for front, one in verdicts:
        for failure, count in one.failures.most_common():
            console.print(f"{front}, {one.operation}: {count} x {failure}", style="red", markup=False)
    console.print(_NOTES, style="dim", highlight=False)


def describe(front: str, verdict: Verdict) -> dict[str, Any]:
    """Return the JSON form of a verdict."""
    return {
        "front": front,
        "operation": verdict.operation,
        "seconds": round(verdict.seconds, 2),
        "requests": verdict.requests,
        "failed": verdict.failed,
        "failures": dict(verdict.failures),
        "in_work_at_a_kill": verdict.in_flight,
        "sent_again": verdict.repeated,
        "p50_ms": round(verdict.p50, 2),
        "p99_ms": round(verdict.p99, 2),
        "slowest_ms": round(verdict.slowest, 1),
        "platform_cpu_us_a_request": round(verdict.cpu_us),
        "note": verdict.note,
    }
