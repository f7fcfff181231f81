"""Command `pharos logs`: log records, the log of a deployment, or the output of an environment's processes."""

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from operator_cli.api.client import open_api
from operator_cli.api.names import resolve_environment
from operator_cli.arguments import add_client_arguments, complete
from operator_cli.control_client import open_client
from operator_cli.credentials import DEFAULT_DATA
from operator_cli.deployments.follow import show_deployment_log
from operator_cli.environments.processes import show_process_output
from operator_cli.errors import InstallationUnreachable, UsageError
from operator_cli.messages import OutageNotice, qualify_commands
from operator_cli.telemetry.reading_arguments import add_range_arguments, describe_no_results

_LINES = 50
# The lowest number of each severity in OpenTelemetry.
SEVERITIES = {"debug": 5, "info": 9, "warning": 13, "error": 17, "critical": 21}
_COLOURS = ((21, "bold red"), (17, "red"), (13, "yellow"), (9, ""), (0, "dim"))
_MAX_COUNT = 1000
_POLL_SECONDS = 1.0
# Records carry the time of their sender, which may buffer them before it sends them.
_OVERLAP_SECONDS = 60
_RECORD_FILTERS = ("service", "severity", "search", "trace", "environment")

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
        "-f", "--follow", action="store_true", help="keep showing what comes in; end with Ctrl-C"
    )
    parser.add_argument("--service", default="", metavar="NAME", help="of this service")
    parser.add_argument("--severity", choices=list(SEVERITIES), help="of this one or worse")
    parser.add_argument("--search", default="", metavar="TEXT", help="with this in their text")
    parser.add_argument("--trace", default="", metavar="ID", help="of this trace")
    add_range_arguments(parser, since="1h", lines=_LINES)
    add_client_arguments(parser)
    # None means the default of each target: for a deployment that is its whole log.
    parser.set_defaults(run=_run, lines=None)


def _run(arguments: argparse.Namespace) -> int:
    target = arguments.target
    if target is None:
        return show_records(arguments, arguments.lines or _LINES)
    for name in _RECORD_FILTERS:
        if getattr(arguments, name):
            raise UsageError(f"--{name} chooses among log records: leave {target} out, or --{name}.")
    api = open_api(arguments)
    if target.isdecimal():
        return show_deployment_log(api, arguments, int(target), arguments.lines)
    environment = resolve_environment(api, target)
    return show_process_output(api, arguments, environment, arguments.lines or _LINES)


def show_records(arguments: argparse.Namespace, lines: int) -> int:
    """Print the newest log records; with `--follow` also new ones. Return exit status 0."""
    # The socket of a local installation, which these are read through, has no profiles.
    arguments.data = arguments.data or DEFAULT_DATA
    asyncio.run(_show_records(arguments, lines))
    return 0


async def _show_records(arguments: argparse.Namespace, lines: int) -> None:
    async with open_client(arguments) as request:
        params = _read_params(arguments, lines)
        records = (await request("logs/list", params))[::-1]
        if not arguments.follow:
            _show_once(arguments, records)
            return
        _show_lines(records, as_json=arguments.json)
        unshown = UnshownRecords(records, is_full=len(records) == lines)
        params |= {"since_seconds": _OVERLAP_SECONDS, "limit": _MAX_COUNT}
        outage = OutageNotice()
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            try:
                records = (await request("logs/list", params))[::-1]
            except InstallationUnreachable as error:
                outage.report(error)
                continue
            outage.end()
            new = unshown.take(records)
            if len(new) == _MAX_COUNT:
                print(
                    qualify_commands("pharos: more came in than can be shown; `pharos query` has all."),
                    file=sys.stderr,
                )
            _show_lines(new, as_json=arguments.json)


def _read_params(arguments: argparse.Namespace, lines: int) -> dict[str, Any]:
    return {
        "environment_id": arguments.environment,
        "since_seconds": arguments.since,
        "service": arguments.service,
        "trace_id": arguments.trace,
        "search": arguments.search,
        "least_severity": SEVERITIES.get(arguments.severity or "", 0),
        "limit": lines,
    }


class UnshownRecords:
    """Finds the new records in overlapping results, oldest first. Different records may be equal in every field."""

    def __init__(self, shown: Sequence[Record], *, is_full: bool) -> None:
        self._seen = Counter(map(_key, shown))
        # Records before the first shown one were not requested.
        self._from = shown[0]["at"] if is_full else ""

    def take(self, records: Sequence[Record]) -> list[Record]:
        """Return the records that no earlier call returned."""
        left, new = self._seen.copy(), []
        for record in records:
            key = _key(record)
            if left[key]:
                left[key] -= 1
            elif record["at"] >= self._from:
                new.append(record)
        # Records that are older than the requested time do not come back.
        self._seen = Counter(map(_key, records))
        return new


def _key(record: Record) -> str:
    return json.dumps(record, sort_keys=True)


def _show_once(arguments: argparse.Namespace, records: Sequence[Record]) -> None:
    if arguments.json:
        print(json.dumps(records[::-1]))
    elif not records:
        print(describe_no_results("log records", arguments))
    else:
        _show_lines(records, as_json=False)


def _show_lines(records: Sequence[Record], *, as_json: bool) -> None:
    """Print the records, which are sorted oldest first."""
    if as_json:
        sys.stdout.write("".join(json.dumps(record) + "\n" for record in records))
        sys.stdout.flush()
        return
    from rich.console import Console
    from rich.text import Text

    from operator_cli.terminal_text import sanitize

    console = Console(highlight=False, soft_wrap=True)
    for record in records:
        style = next(style for least, style in _COLOURS if record["severity_number"] >= least)
        at = f"{record['at'][:10]} {record['at'][11:23]}"
        severity = sanitize(record["severity"], max_length=8)
        line = Text(f"{at}  {severity:<8}  ", style=style)
        parts = [sanitize(record["service"], max_length=40), sanitize(record["text"], max_length=2000)]
        console.print(line.append("  ".join(part for part in parts if part)))
