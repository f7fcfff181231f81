"""Commands `pharos heartbeat …` and `heartbeats`."""

import argparse
from collections.abc import Mapping
from typing import Any

from operator_cli.control_client import WHICH_INSTALLATION, add_data_and_json_arguments
from operator_cli.credentials import get_base_url
from operator_cli.durations import parse_duration
from operator_cli.messages import program_name, qualify_commands
from operator_cli.monitors.monitor_commands import (
    add_environment_option,
    add_monitor_subcommands,
    ping_url_prefix,
    run_list,
    run_subcommand,
)

_SUBCOMMANDS = {
    "create": "create a heartbeat; its key is shown once, its ping URL also later by `show`",
    "list": "list heartbeats with their states",
    "show": "show one with its ping URL and its newest runs",
    "set": "change its schedule and limits, effective at once; its counts of failures stay",
    "pause": "record its signals, but do not evaluate them",
    "resume": "evaluate it again, from its next signal on",
    "new-key": "create one more key; existing ones keep working",
    "new-ping-key": "create one more ping URL; existing ones keep working",
    "revoke-key": "revoke a key at every edge, within 5 s",
    "remove": "remove one with its keys and runs",
}
_DEFAULTS = {"timezone": "UTC", "grace": "5m", "max-runtime": "1h", "failures": "1"}
_SETTINGS = (
    "name",
    "period_seconds",
    "cron",
    "timezone",
    "grace_seconds",
    "max_runtime_seconds",
    "failures_before_down",
    "environment_id",
)


def register_heartbeat(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "heartbeat",
        help="create, list, show, change, pause and remove heartbeats of scheduled jobs",
        description=f"Heartbeats: jobs that report when they start and how they end. {WHICH_INSTALLATION}",
    )
    add_monitor_subcommands(parser, _run, _SUBCOMMANDS, _add_arguments)


def _add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    match name:
        case "create":
            parser.add_argument("name", help="the name of the job")
            _add_settings(parser, _DEFAULTS)
            add_environment_option(parser)
        case "set":
            _add_settings(parser, {})


def _add_settings(parser: argparse.ArgumentParser, defaults: Mapping[str, str]) -> None:
    """Add the settings of a heartbeat. With `defaults`, which the help shows, a schedule is required."""

    def describe(summary: str, name: str) -> str:
        return f"{summary} ({defaults[name]})" if name in defaults else summary

    due = parser.add_mutually_exclusive_group(required=bool(defaults))
    due.add_argument(
        "--period",
        type=parse_duration,
        metavar="TIME",
        help="time from one run to the next: 1h",
        dest="period_seconds",
    )
    due.add_argument("--cron", metavar="EXPRESSION", help="schedule of a crontab: '0 3 * * *'")
    parser.add_argument(
        "--timezone", metavar="NAME", help=describe("time zone of --cron: Europe/Oslo", "timezone")
    )
    for option, summary in (
        ("grace", "from late to down"),
        ("max-runtime", "longest time that a run may take"),
    ):
        parser.add_argument(
            f"--{option}",
            type=parse_duration,
            metavar="TIME",
            help=describe(summary, option),
            dest=f"{option.replace('-', '_')}_seconds",
        )
    parser.add_argument(
        "--failures",
        type=int,
        metavar="N",
        help=describe("down after so many in a row", "failures"),
        dest="failures_before_down",
    )


def _run(arguments: argparse.Namespace) -> int:
    params = {name: getattr(arguments, name, None) for name in _SETTINGS}
    return run_subcommand(arguments, "heartbeat", params, _show_key)


def _show_key(arguments: argparse.Namespace, result: dict[str, Any]) -> None:
    if "key" in result:
        _show_monitor_key(arguments, result)
    if "ping_key" in result:
        url = ping_url_prefix(arguments) + result["ping_key"]
        # A heartbeat with a period, or a key created later, has no schedule to show here: 3 a.m. is an example.
        cron = getattr(arguments, "cron", None) or "0 3 * * *"
        _show_ping_url(result["id"], url, result["ping_key_id"], cron)


def _show_ping_url(heartbeat_id: int, url: str, key_id: int, cron: str) -> None:
    print(
        qualify_commands(
            f"\nPing URL (key {key_id}), for jobs that can only call a URL; "
            f"`pharos heartbeat show {heartbeat_id}` shows it again:"
        )
    )
    print(f"{url}\n")
    print("In a crontab:")
    print(f"  {cron}  /usr/local/bin/backup; curl -fsS -m 10 --retry 5 -o /dev/null {url}/$?")
    print("In a script, with the time it takes and its output:")
    print(f"  curl -fsS -m 10 --retry 5 -o /dev/null {url}/start")
    print("  output=$(your-command 2>&1); status=$?")
    print(f'  curl -fsS -m 10 --retry 5 -o /dev/null --data-raw "$output" {url}/$status')


def _show_monitor_key(arguments: argparse.Namespace, result: dict[str, Any]) -> None:
    print(f"Heartbeat {result['id']}. Its key, shown this once:\n{result['key']}\n")
    url = get_base_url(arguments.data)
    print("Around the job:")
    print(
        f"  PHAROS_URL={url} PHAROS_HEARTBEAT_KEY={result['key']} "
        f"{program_name()} run --heartbeat {result['id']} -- your-command"
    )
    print("Or from anywhere:")
    print(
        f"  curl -sS {url}/v1/heartbeats/{result['id']} -H 'Authorization: Bearer {result['key']}' "
        "-H 'Content-Type: application/json' "
        f'-d "{{\\"run_id\\": \\"$(cat /proc/sys/kernel/random/uuid)\\", \\"signal\\": \\"success\\"}}"'
    )


def register_heartbeats(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "heartbeats", help="show all heartbeats at a glance", description=f"Heartbeats. {WHICH_INSTALLATION}"
    )
    add_data_and_json_arguments(parser)
    parser.set_defaults(run=lambda arguments: run_list(arguments, "heartbeat"))
