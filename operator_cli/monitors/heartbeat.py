"""`pharos heartbeat create|list|show|set|rename|runs|output|log|pause|resume|new-key|new-ping-key|revoke-key|remove`,
and `pharos heartbeats`."""

import argparse
from collections.abc import Mapping
from typing import Any, Final

from operator_cli.api.client import Api, open_api
from operator_cli.api.names import Row
from operator_cli.api.problems import ApiRefused
from operator_cli.arguments import add_client_arguments, add_verbs
from operator_cli.counts import add_limit_argument
from operator_cli.durations import parse_duration
from operator_cli.errors import NoSuchName, UsageError
from operator_cli.messages import print_result
from operator_cli.monitors.find_monitor import find_monitor
from operator_cli.monitors.monitor_commands import (
    add_environment_option,
    add_shared_arguments,
    create,
    run_list,
    run_shared_verb,
)

_VERBS = {
    "create": "create a heartbeat; its key is shown once, its ping URL also later by `show`",
    "list": "list heartbeats with their states",
    "show": "show a heartbeat with its keys, its ping URLs and its newest runs",
    "set": "change the schedule and limits of a heartbeat, effective at once",
    "rename": "rename a heartbeat",
    "runs": "list the runs of the last 7 days",
    "output": "print the output of a run",
    "log": "print what the job has logged, the newest 100 texts of the last 7 days",
    "pause": "record the signals of a heartbeat, but do not evaluate them",
    "resume": "evaluate a paused heartbeat again, from its next signal on",
    "new-key": "create one more key; existing ones keep working",
    "new-ping-key": "create one more ping URL; existing ones keep working",
    "revoke-key": "revoke a key or a ping key at every edge, within 5 s",
    "remove": "remove a heartbeat with its keys and runs",
}
_DESCRIPTIONS = {
    "show": "Only people who may change the heartbeat see its ping URLs: anybody who knows one can report for it.",
    "set": "Counted failures stay counted; only a success ends `down`.",
    "output": "A job sends it in the body of a ping. It is kept as long as the run.",
    "log": "A job sends each text to its ping URL with /log at the end, which changes no state. The newest comes last.",
}
_STATES = ("new", "running", "up", "late", "down", "paused", "unknown")
_DEFAULTS = {"timezone": "UTC", "grace": "5m", "max-runtime": "1h", "failures": "1"}
_SETTINGS = (
    "period_seconds",
    "cron",
    "timezone",
    "grace_seconds",
    "max_runtime_seconds",
    "failures_before_down",
)
_SHOWN_RUNS: Final = 20
_LISTED_RUNS: Final = 50
_LISTED_LOG: Final = 20
_SEARCHED_RUNS: Final = 100


def register_heartbeat(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "heartbeat",
        help="heartbeats of scheduled jobs",
        description="Heartbeats: jobs that report when they start and how they end.",
    )
    add_verbs(parser, _VERBS, _run, _add_arguments, _DESCRIPTIONS)


def register_heartbeats(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "heartbeats",
        help="show all heartbeats at a glance",
        description="Heartbeats with their states, schedules and last successes.",
    )
    add_environment_option(parser, is_filter=True)
    _add_state_option(parser)
    add_client_arguments(parser)
    parser.set_defaults(run=_run_list)


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    add_shared_arguments(parser, "heartbeat", verb)
    match verb:
        case "create":
            _add_settings(parser, _DEFAULTS)
        case "set":
            _add_settings(parser, {})
        case "list":
            _add_state_option(parser)
        case "runs":
            add_limit_argument(parser, _LISTED_RUNS)
        case "log":
            add_limit_argument(parser, _LISTED_LOG)
        case "output":
            parser.add_argument(
                "run_id",
                metavar="RUN",
                nargs="?",
                help="ID as `runs` lists it; the newest run with an output if left out",
            )


def _add_state_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--state", choices=_STATES, help="only heartbeats in this state")


def _add_settings(parser: argparse.ArgumentParser, defaults: Mapping[str, str]) -> None:
    """Add the settings of a heartbeat. With `defaults`, which the help shows, a schedule is required."""

    def describe(summary: str, name: str) -> str:
        return f"{summary} ({defaults[name]})" if name in defaults else summary

    due = parser.add_mutually_exclusive_group(required=bool(defaults))
    due.add_argument(
        "--every",
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
    api = open_api(arguments)
    match arguments.verb:
        case "list":
            return _run_list(arguments)
        case "create":
            created = create(arguments, api, "heartbeat", _read_settings(arguments))
            return print_result(
                arguments, created, lambda created: _show_created(api, created), quiet="key.key"
            )
        case "rename" | "new-key" | "revoke-key" | "remove":
            return run_shared_verb(arguments, api, "heartbeat", _show_key)
    changes = _read_settings(arguments) if arguments.verb == "set" else {}
    if arguments.verb == "set" and not changes:
        raise UsageError("Say what to change: `pharos heartbeat set --help` lists what can be.")
    heartbeat = find_monitor(api, "heartbeat", arguments.monitor)
    path = ("monitors", "heartbeats", heartbeat["id"])
    match arguments.verb:
        case "set":
            return print_result(arguments, api.patch(*path, body=changes), _show_state)
        case "show":
            return _show(arguments, api, heartbeat)
        case "runs":
            runs = api.get_all(*path, "runs", limit=arguments.limit)
            return print_result(
                arguments, runs, lambda runs: _show_runs(arguments, heartbeat, runs), quiet="run_id"
            )
        case "log":
            entries = api.get_all(*path, "log", limit=arguments.limit)
            return print_result(arguments, entries, lambda entries: _show_log(heartbeat, entries))
        case "output":
            return print_result(arguments, _read_output(api, heartbeat, arguments.run_id), _show_output)
        case "new-ping-key":
            key = api.post(*path, "ping-keys")
            return print_result(arguments, key, lambda key: _show_ping_key(api, heartbeat, key), quiet="key")
    # pause, resume
    return print_result(arguments, api.post(*path, arguments.verb), _show_state)


def _run_list(arguments: argparse.Namespace) -> int:
    # Imported here and below: rich is slow to import, and --json needs none of it.
    def show(arguments: argparse.Namespace, heartbeats: list[dict[str, Any]]) -> None:
        from operator_cli.monitors.heartbeat_tables import show_heartbeats

        show_heartbeats(arguments, heartbeats)

    return run_list(arguments, open_api(arguments), "heartbeat", show)


def _read_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that were given."""
    return {name: value for name in _SETTINGS if (value := getattr(arguments, name)) is not None}


def _show(arguments: argparse.Namespace, api: Api, heartbeat: Row) -> int:
    path = ("monitors", "heartbeats", heartbeat["id"])
    whole = {
        **heartbeat,
        "runs": api.get_all(*path, "runs", limit=_SHOWN_RUNS),
        "keys": api.get_all(*path, "keys"),
        "ping_keys": read_ping_keys(api, heartbeat),
    }

    def show(whole: dict[str, Any]) -> None:
        from operator_cli.monitors.heartbeat_tables import show_heartbeat

        with_output = next((run["run_id"] for run in whole["runs"] if run["has_output"]), None)
        output = None if with_output is None else api.get(*path, "runs", with_output)
        show_heartbeat(arguments, whole, _host(api), output)

    return print_result(arguments, whole, show)


def read_ping_keys(api: Api, heartbeat: Row) -> list[dict[str, Any]] | None:
    """Return the ping keys; None if the caller may not see them."""
    try:
        return api.get_all("monitors", "heartbeats", heartbeat["id"], "ping-keys")
    except ApiRefused as error:
        if error.slug not in ("missing-scope", "deploy-not-allowed"):
            raise
        return None


def _show_runs(arguments: argparse.Namespace, heartbeat: Row, runs: list[dict[str, Any]]) -> None:
    from operator_cli.monitors.heartbeat_tables import show_runs

    show_runs(arguments, str(heartbeat["name"]), runs)


def _read_output(api: Api, heartbeat: Row, run_id: str | None) -> Any:
    """Return the run with its output, the newest one that has an output for None. Raises `CommandFailed`."""
    runs = ("monitors", "heartbeats", heartbeat["id"], "runs")
    if run_id is None:
        newest = api.get_all(*runs, limit=_SEARCHED_RUNS)
        run_id = next((run["run_id"] for run in newest if run["has_output"]), None)
    if run_id is None:
        raise NoSuchName(f"None of the newest {_SEARCHED_RUNS} runs of {heartbeat['name']} has an output.")
    return api.get(*runs, run_id)


def _show_output(run: dict[str, Any]) -> None:
    from operator_cli.terminal_text import replace_control_characters

    if run["output"] is None:
        raise NoSuchName(f"Run {run['run_id']} has no output.")
    print(replace_control_characters(run["output"]))


def _show_log(heartbeat: Row, entries: list[dict[str, Any]]) -> None:
    from operator_cli.durations import format_minute
    from operator_cli.terminal_text import replace_control_characters

    if not entries:
        print(f"Nothing was logged at {heartbeat['name']} in the last 7 days.")
    for entry in reversed(entries):
        text = replace_control_characters(entry["text"] or "").rstrip("\n")
        print(f"{format_minute(entry['logged_at'])} UTC  {text}")


def _show_state(heartbeat: dict[str, Any]) -> None:
    from operator_cli.durations import format_minute
    from operator_cli.monitors.heartbeat_tables import format_schedule

    due = "" if heartbeat["due_at"] is None else f", due {format_minute(heartbeat['due_at'])} UTC"
    schedule = format_schedule(heartbeat)
    print(f"Heartbeat {heartbeat['name']}: {schedule}, state {heartbeat['state']}{due}.")


def _host(api: Api) -> str:
    """Return the address that ping URLs begin with."""
    return api.target.base_url.removesuffix("/api")


def _show_created(api: Api, heartbeat: dict[str, Any]) -> None:
    _show_key(api, heartbeat, heartbeat["key"])
    _show_ping_key(api, heartbeat, heartbeat["ping_key"])


def _show_key(api: Api, heartbeat: Row, key: dict[str, Any]) -> None:
    from operator_cli.monitors.usage import describe_monitor_key

    print(describe_monitor_key(heartbeat, key, api.target.base_url))


def _show_ping_key(api: Api, heartbeat: Row, key: dict[str, Any]) -> None:
    from operator_cli.monitors.usage import describe_ping_url

    print(describe_ping_url(heartbeat, key, _host(api)))
