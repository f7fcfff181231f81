"""`pharos heartbeat create|list|show|set|pause|resume|new-key|new-ping-key|revoke-key|remove`."""

import argparse
from collections.abc import Mapping
from typing import Any

from operator_cli.ask import WHICH
from operator_cli.credentials import base_url_of
from operator_cli.durations import parse_duration
from operator_cli.monitor_actions import add_actions, add_environment_argument, ping_root, run_action
from operator_cli.typed_commands import program, typed_commands

_ACTIONS = {
    "create": "make one; its key is shown once, its ping URL as often as you like by `show`",
    "list": "show each with its state",
    "show": "show one with its ping URL and its newest runs",
    "set": "change its schedule and limits; they hold at once, and what was counted stays counted",
    "pause": "record its signals, but do not judge them",
    "resume": "judge it again, from its next signal on",
    "new-key": "make one more key; those before go on working",
    "new-ping-key": "make one more ping URL; existing ones keep working",
    "revoke-key": "let no edge take a key any more, within 5 s",
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


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "heartbeat",
        help="make, list, show, change, pause and remove heartbeats of scheduled jobs",
        description=f"Heartbeats: jobs that say when they start and how they end. {WHICH}",
    )
    add_actions(parser, _run, _ACTIONS, _add_arguments)


def _add_arguments(action: argparse.ArgumentParser, name: str) -> None:
    match name:
        case "create":
            action.add_argument("name", help="what the job is called")
            _add_settings(action, _DEFAULTS)
            add_environment_argument(action)
        case "set":
            _add_settings(action, {})


def _add_settings(action: argparse.ArgumentParser, defaults: Mapping[str, str]) -> None:
    """What is configured of one. `defaults` are told where there are any; then it needs a schedule as well."""

    def told(what: str, name: str) -> str:
        return f"{what} ({defaults[name]})" if name in defaults else what

    due = action.add_mutually_exclusive_group(required=bool(defaults))
    due.add_argument(
        "--period",
        type=parse_duration,
        metavar="TIME",
        help="due so long after the last run: 1h",
        dest="period_seconds",
    )
    due.add_argument("--cron", metavar="EXPRESSION", help="due by the clock on the wall: '0 3 * * *'")
    action.add_argument("--timezone", metavar="NAME", help=told("whose clock: Europe/Oslo", "timezone"))
    for option, what in (
        ("grace", "from late to down"),
        ("max-runtime", "longest time that a run may take"),
    ):
        action.add_argument(
            f"--{option}",
            type=parse_duration,
            metavar="TIME",
            help=told(what, option),
            dest=f"{option.replace('-', '_')}_seconds",
        )
    action.add_argument(
        "--failures",
        type=int,
        metavar="N",
        help=told("down after so many in a row", "failures"),
        dest="failures_before_down",
    )


def _run(arguments: argparse.Namespace) -> int:
    wanted = {name: getattr(arguments, name, None) for name in _SETTINGS}
    return run_action(arguments, "heartbeat", wanted, _tell_key)


def _tell_key(arguments: argparse.Namespace, told: dict[str, Any]) -> None:
    if "key" in told:
        _tell_monitor_key(arguments, told)
    if "ping_key" in told:
        url = ping_root(arguments) + told["ping_key"]
        # A heartbeat with a period, or a key made later, has no schedule to show here: 3 a.m. is an example.
        cron = getattr(arguments, "cron", None) or "0 3 * * *"
        _tell_ping_url(told["id"], url, told["ping_key_id"], cron)


def _tell_ping_url(heartbeat_id: int, url: str, key_id: int, cron: str) -> None:
    print(
        typed_commands(
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


def _tell_monitor_key(arguments: argparse.Namespace, told: dict[str, Any]) -> None:
    print(f"Heartbeat {told['id']}. Its key, shown this once:\n{told['key']}\n")
    url = base_url_of(arguments.data)
    print("Around the job:")
    print(
        f"  PHAROS_URL={url} PHAROS_HEARTBEAT_KEY={told['key']} "
        f"{program()} run --heartbeat {told['id']} -- your-command"
    )
    print("Or from anywhere:")
    print(
        f"  curl -sS {url}/v1/heartbeats/{told['id']} -H 'Authorization: Bearer {told['key']}' "
        "-H 'Content-Type: application/json' "
        f'-d "{{\\"run_id\\": \\"$(cat /proc/sys/kernel/random/uuid)\\", \\"signal\\": \\"success\\"}}"'
    )
