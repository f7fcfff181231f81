"""`pharos heartbeat create|list|show|pause|resume|new-key|revoke-key`."""

import argparse
from typing import Any

from operator_cli.ask import WHICH
from operator_cli.credentials import base_url_of
from operator_cli.durations import parse_duration
from operator_cli.monitor_actions import add_actions, add_environment_argument, run_action

_ACTIONS = {
    "create": "make one; its key is shown once",
    "list": "show each with its state",
    "show": "show one with its newest runs",
    "pause": "record its signals, but do not judge them",
    "resume": "judge it again, from its next signal on",
    "new-key": "make one more key; those before go on working",
    "revoke-key": "let no edge take a key any more, within 5 s",
}
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
        help="make, list, show and pause heartbeats of scheduled jobs",
        description=f"Heartbeats: jobs that say when they start and how they end. {WHICH}",
    )
    add_actions(parser, _run, _ACTIONS, _add_create_arguments)


def _add_create_arguments(create: argparse.ArgumentParser) -> None:
    create.add_argument("name", help="what the job is called")
    due = create.add_mutually_exclusive_group(required=True)
    due.add_argument(
        "--period",
        type=parse_duration,
        metavar="TIME",
        help="due so long after the last run: 1h",
        dest="period_seconds",
    )
    due.add_argument("--cron", metavar="EXPRESSION", help="due by the clock on the wall: '0 3 * * *'")
    create.add_argument("--timezone", metavar="NAME", help="whose clock: Europe/Oslo (UTC)")
    create.add_argument(
        "--grace", type=parse_duration, metavar="TIME", help="from late to down (5m)", dest="grace_seconds"
    )
    create.add_argument(
        "--max-runtime",
        type=parse_duration,
        metavar="TIME",
        help="longest time that a run may take (1h)",
        dest="max_runtime_seconds",
    )
    create.add_argument(
        "--failures",
        type=int,
        metavar="N",
        help="down after so many in a row (1)",
        dest="failures_before_down",
    )
    add_environment_argument(create)


def _run(arguments: argparse.Namespace) -> int:
    wanted = {name: getattr(arguments, name, None) for name in _SETTINGS}
    return run_action(arguments, "heartbeat", wanted, _tell_key)


def _tell_key(arguments: argparse.Namespace, told: dict[str, Any]) -> None:
    print(f"Heartbeat {told['id']}. Its key, shown this once:\n{told['key']}\n")
    url = base_url_of(arguments.data)
    print("Around the job:")
    print(
        f"  PHAROS_URL={url} PHAROS_HEARTBEAT_KEY={told['key']} pharos run --heartbeat {told['id']} -- your-command"
    )
    print("Or from anywhere:")
    print(
        f"  curl -sS {url}/v1/heartbeats/{told['id']} -H 'Authorization: Bearer {told['key']}' "
        "-H 'Content-Type: application/json' "
        f'-d "{{\\"run_id\\": \\"$(cat /proc/sys/kernel/random/uuid)\\", \\"signal\\": \\"success\\"}}"'
    )
