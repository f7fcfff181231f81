"""Command `pharos logs`: log records, the log of a deployment, or the output of an environment's processes."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any, Final

from operator_cli.api.client import Api, open_api
from operator_cli.api.default_environment import Effect
from operator_cli.api.names import Environment, resolve_environment
from operator_cli.arguments import add_client_arguments, complete
from operator_cli.counts import add_limit_argument
from operator_cli.deployments.follow import show_deployment_log
from operator_cli.environments.processes import show_process_output
from operator_cli.errors import UsageError
from operator_cli.telemetry.find_trace import find_trace
from operator_cli.telemetry.follow_newest import follow_newest
from operator_cli.telemetry.time_range import (
    add_environment_option,
    add_range_arguments,
    describe_no_results,
    encode_range,
    refuse_following_a_past_range,
)

_LINES: Final = 50
# `critical` is what telemetry events call it.
_SEVERITIES: Final = {
    **{name: name for name in ("debug", "info", "warning", "error", "fatal")},
    "critical": "fatal",
}
_COLOURS: Final = ((21, "bold red"), (17, "red"), (13, "yellow"), (9, ""), (0, "dim"))
_RECORD_FLAGS: Final = ("service", "severity", "search", "trace", "environment", "since", "until")

Record = dict[str, Any]


def register_logs(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "logs",
        help="show the newest log records, a deployment's log, or the output of an environment's processes",
        description="Without WHAT: log records that were received over OTLP and telemetry events of type log, the "
        "newest last. A number: the log of that deployment (all of it, up to 1,000 lines). An environment: the output "
        "of its running processes, if the control plane runs on the machine of its deployer.",
    )
    target = parser.add_argument(
        "target",
        nargs="?",
        metavar="WHAT",
        help="a deployment's number, or an environment: production, or shop/production",
    )
    complete(target, "environment")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="keep showing new lines or records; end with Ctrl-C"
    )
    add_limit_argument(parser, _LINES, other_name="--lines", what="how many lines or records")
    records = parser.add_argument_group("log records")
    records.add_argument(
        "--search",
        metavar="WORDS",
        help="only records with these words in their text: whole words, A-Z in any case",
    )
    records.add_argument("--severity", choices=list(_SEVERITIES), help="only of this or a higher severity")
    records.add_argument("--service", metavar="NAME", help="of this service")
    records.add_argument("--trace", metavar="ID", help="of this trace")
    add_environment_option(records)
    add_range_arguments(records, "1h")
    add_client_arguments(parser)
    # None means the default of each target, which is the whole log for a deployment.
    parser.set_defaults(run=_run, limit=None)


def _run(arguments: argparse.Namespace) -> int:
    target = arguments.target
    if target is None:
        refuse_following_a_past_range(arguments)
        api = open_api(arguments)
        return _show_records(
            api, arguments, resolve_environment(api, arguments.environment, effect=Effect.READS)
        )
    for name in _RECORD_FLAGS:
        if getattr(arguments, name) is not None:
            raise UsageError(f"--{name} filters log records: leave {target} out, or --{name}.")
    api = open_api(arguments)
    if target.isdecimal():
        return show_deployment_log(api, arguments, int(target), arguments.limit)
    environment = resolve_environment(api, target, option="", effect=Effect.READS)
    return show_process_output(api, arguments, environment, arguments.limit or _LINES)


def _show_records(api: Api, arguments: argparse.Namespace, environment: Environment) -> int:
    """Print the newest log records; with `--follow` also new ones. Return exit status 0."""
    path = ("environments", environment.id, "logs")
    trace = arguments.trace
    filters = {
        "search": arguments.search,
        "severity": _SEVERITIES[arguments.severity] if arguments.severity else None,
        "service": arguments.service,
        "trace": None if trace is None else find_trace(api, environment, trace),
    }
    within, count = encode_range(arguments), arguments.limit or _LINES
    if arguments.follow:
        follow_newest(api, path, filters, within, count, lambda rows: _show_lines(arguments, rows))
    records = api.get_all(*path, query={**filters, **within}, limit=count)
    if arguments.json:
        print(json.dumps(records))
        return 0
    _show_lines(arguments, records[::-1])
    if not records:
        print(describe_no_results("log records", environment.path, arguments), file=sys.stderr)
    return 0


def _show_lines(arguments: argparse.Namespace, records: Sequence[Record]) -> None:
    """Print the records, the oldest first."""
    if arguments.json:
        sys.stdout.write("".join(json.dumps(record) + "\n" for record in records))
    elif arguments.quiet:
        sys.stdout.write("".join(f"{_clean(record['text'])}\n" for record in records))
    elif records:
        _print_lines(records)
    sys.stdout.flush()


def _print_lines(records: Sequence[Record]) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from rich.console import Console
    from rich.text import Text

    from operator_cli.terminal_text import sanitize

    console = Console(highlight=False, soft_wrap=True)
    for record in records:
        style = next(style for least, style in _COLOURS if record["severity_number"] >= least)
        at = f"{record['timestamp'][:10]} {record['timestamp'][11:23]}"
        severity = sanitize(record["severity"] or "", max_length=8)
        line = Text(f"{at}  {severity:<8}  ", style=style)
        first, *others = _clean_lines(record["text"])
        parts = [sanitize(record["service"] or "", max_length=40), first]
        console.print(line.append("  ".join(part for part in parts if part)))
        for other in others:
            console.print(Text(other))


def _clean(text: str) -> str:
    from operator_cli.terminal_text import remove_colours, sanitize

    return sanitize(remove_colours(text), max_length=2000)


def _clean_lines(text: str) -> list[str]:
    """Return the lines of a record, at least one. The end of a stack trace matters most: nothing is cut there."""
    return [_clean(line.expandtabs(4)) for line in text.splitlines()] or [""]
