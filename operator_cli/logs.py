"""`pharos logs`: the newest log records, over OTLP and as telemetry events."""

import argparse
import json
from typing import Any

from operator_cli.ask import ask
from operator_cli.reading_arguments import WHICH_STORE, add_reading_arguments, nothing_found

# OpenTelemetry's least numbers.
_SEVERITIES = {"debug": 5, "info": 9, "warning": 13, "error": 17, "critical": 21}
_COLOURS = ((21, "bold red"), (17, "red"), (13, "yellow"), (9, ""), (0, "dim"))


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "logs",
        help="show the newest log records",
        description="Log records that came over OTLP and telemetry events of type log, the newest last. "
        + WHICH_STORE,
    )
    parser.add_argument("--service", default="", metavar="NAME", help="of this service")
    parser.add_argument("--severity", choices=list(_SEVERITIES), help="of this one or worse")
    parser.add_argument("--search", default="", metavar="TEXT", help="with this in their text")
    parser.add_argument("--trace", default="", metavar="ID", help="of this trace")
    add_reading_arguments(parser, since="1h", lines=50)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    records = ask(
        arguments,
        "logs/list",
        {
            "environment_id": arguments.environment,
            "since_seconds": arguments.since,
            "service": arguments.service,
            "trace_id": arguments.trace,
            "search": arguments.search,
            "least_severity": _SEVERITIES.get(arguments.severity or "", 0),
            "limit": arguments.lines,
        },
    )
    if arguments.json:
        print(json.dumps(records))
    elif not records:
        print(nothing_found("log records", arguments))
    else:
        _show(records[::-1])
    return 0


def _show(records: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.text import Text

    from operator_cli.plain_text import plain

    console = Console(highlight=False, soft_wrap=True)
    for record in records:
        style = next(style for least, style in _COLOURS if record["severity_number"] >= least)
        at = f"{record['at'][:10]} {record['at'][11:23]}"
        severity = plain(record["severity"], most=8)
        line = Text(f"{at}  {severity:<8}  ", style=style)
        parts = [plain(record["service"], most=40), plain(record["text"], most=2000)]
        console.print(line.append("  ".join(part for part in parts if part)))
