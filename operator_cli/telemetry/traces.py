"""`pharos traces list|show`."""

import argparse
import re
from typing import Any, Final

from operator_cli.api.client import open_api
from operator_cli.api.default_environment import Effect
from operator_cli.api.names import resolve_environment
from operator_cli.arguments import add_verbs
from operator_cli.counts import add_limit_argument
from operator_cli.messages import print_result
from operator_cli.telemetry.find_trace import find_trace
from operator_cli.telemetry.time_range import (
    add_environment_option,
    add_range_arguments,
    describe_no_results,
    encode_range,
)

_VERBS = {
    "list": "list the newest traces",
    "show": "show a trace as a tree of its spans",
}
_DESCRIPTIONS = {
    "list": "A trace is listed if one of its spans meets all conditions.",
    "show": "A bar shows when a span ran within the trace.",
}
_DURATION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]+)?)(ms|s|m)?")
_MILLISECONDS: Final = {"ms": 1.0, "s": 1000.0, "m": 60_000.0}


def register_traces(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "traces",
        help="traces, with their spans as a tree",
        description="Traces that were received over OTLP. `pharos traces` alone lists them.",
    )
    add_verbs(parser, _VERBS, _run, _add_arguments, _DESCRIPTIONS, default="list")


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    add_environment_option(parser)
    if verb == "show":
        parser.add_argument(
            "trace", metavar="TRACE", help="the ID of the trace, or the beginning that `list` shows"
        )
        return
    parser.add_argument("--service", metavar="NAME", help="with a span of this service")
    parser.add_argument("--name", metavar="NAME", help="with a span of this name")
    parser.add_argument("--errors", action="store_true", help="with a span that failed")
    parser.add_argument(
        "--slower-than",
        type=_parse_milliseconds,
        metavar="TIME",
        help="with a span that took 500ms, 2s or more",
    )
    add_range_arguments(parser, "1h")
    add_limit_argument(parser, 20)


def _parse_milliseconds(text: str) -> float:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration; write 500ms or 2s")
    return float(found[1]) * _MILLISECONDS[found[2] or "ms"]


def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    environment = resolve_environment(api, arguments.environment, effect=Effect.READS)
    path = ("environments", environment.id, "traces")
    if arguments.verb == "show":
        trace = api.get(*path, find_trace(api, environment, arguments.trace))
        return print_result(arguments, trace, _show_one)
    query = {
        "service": arguments.service,
        "name": arguments.name,
        "only_errors": arguments.errors or None,
        "min_duration_ms": arguments.slower_than,
        **encode_range(arguments),
    }
    traces = api.get_all(*path, query=query, limit=arguments.limit)
    return print_result(arguments, traces, lambda rows: _show_list(arguments, rows, environment.path))


def _show_list(arguments: argparse.Namespace, traces: list[dict[str, Any]], path: str) -> None:
    # Imported here and below: rich is slow to import, and --json needs none of it.
    from operator_cli.durations import format_duration, format_seconds
    from operator_cli.tables import Column, print_table
    from operator_cli.terminal_text import make_cell

    began = format_seconds([trace["started_at"] for trace in traces])
    print_table(
        arguments,
        [
            Column("Began", wraps=False),
            Column("Service"),
            Column("Name"),
            Column("Took", is_number=True),
            Column("Errors", is_number=True),
            Column("ID", is_id=True),
            Column("Spans", is_number=True, is_optional=True),
        ],
        [
            (
                began_at,
                trace["service"],
                trace["name"],
                format_duration(trace["duration_ms"] / 1000),
                make_cell(str(trace["errors"]), "bold red") if trace["errors"] else None,
                trace["id"],
                trace["spans"],
            )
            for trace, began_at in zip(traces, began, strict=True)
        ],
        empty=describe_no_results("traces", path, arguments),
    )


def _show_one(trace: dict[str, Any]) -> None:
    from operator_cli.telemetry.trace_tree import show_trace

    show_trace(trace)
