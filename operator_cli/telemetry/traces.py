"""Command `pharos traces`: the newest traces as a table, or one as a tree."""

import argparse
import json
import re
from typing import Any

from operator_cli.control_client import WHICH_INSTALLATION_AND_STORE, request_action
from operator_cli.durations import format_duration
from operator_cli.errors import CommandFailed
from operator_cli.telemetry.reading_arguments import add_reading_arguments, describe_no_results

_MILLISECONDS = re.compile(r"(\d{1,9})(?:\.\d+)?(ms|s|m)?")
_UNITS = {"ms": 1.0, "s": 1000.0, "m": 60_000.0}
_TRACE_ID = re.compile(r"[0-9a-fA-F]{32}")


def register_traces(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "traces",
        help="show the newest traces, or one of them as a tree",
        description=f"Traces that were received over OTLP. {WHICH_INSTALLATION_AND_STORE}",
    )
    parser.add_argument("trace", nargs="?", metavar="TRACE_ID", help="show this one as a tree")
    parser.add_argument("--service", default="", metavar="NAME", help="with a span of this service")
    parser.add_argument("--errors", action="store_true", help="with a span that failed")
    parser.add_argument(
        "--slower-than", type=_parse_milliseconds, default=0.0, metavar="TIME", help="500ms, 2s"
    )
    add_reading_arguments(parser, since="1h", lines=20)
    parser.set_defaults(run=_run)


def _parse_milliseconds(text: str) -> float:
    found = _MILLISECONDS.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 500ms or 2s")
    return float(text.removesuffix(found[2] or "")) * _UNITS[found[2] or "ms"]


def _run(arguments: argparse.Namespace) -> int:
    if arguments.trace is not None:
        return _show_one(arguments)
    traces = request_action(
        arguments,
        "traces/list",
        {
            "environment_id": arguments.environment,
            "since_seconds": arguments.since,
            "service": arguments.service,
            "only_errors": arguments.errors,
            "least_ms": arguments.slower_than,
            "limit": arguments.lines,
        },
    )
    if arguments.json:
        print(json.dumps(traces))
    elif not traces:
        print(describe_no_results("traces", arguments))
    else:
        _show_table(traces)
    return 0


def _show_table(traces: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    from operator_cli.terminal_text import make_cell

    table = Table("Began", "Service", "Name", box=None, pad_edge=False)
    table.columns[0].no_wrap = True
    table.add_column("Took", justify="right", no_wrap=True)
    table.add_column("Spans", justify="right")
    table.add_column("Errors", justify="right")
    table.add_column("Trace", no_wrap=True)
    for trace in traces:
        table.add_row(
            trace["started_at"][11:19],
            make_cell(trace["service"], max_length=40),
            make_cell(trace["name"], max_length=60),
            format_duration(trace["duration_ms"] / 1000),
            str(trace["spans"]),
            make_cell(str(trace["errors"] or "-"), "bold red" if trace["errors"] else ""),
            trace["trace_id"],
        )
    Console().print(table)


def _show_one(arguments: argparse.Namespace) -> int:
    if not _TRACE_ID.fullmatch(arguments.trace):
        raise CommandFailed(f"{arguments.trace!r} is no trace ID: it has 32 hexadecimal digits.")
    params = {"trace_id": arguments.trace, "environment_id": arguments.environment}
    spans = request_action(arguments, "traces/show", params)
    if arguments.json:
        print(json.dumps(spans))
    elif not spans:
        print("No spans of this trace are stored.")
    else:
        from operator_cli.telemetry.trace_tree import show_trace

        show_trace(spans)
    return 0
