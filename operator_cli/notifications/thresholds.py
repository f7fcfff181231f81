"""`pharos thresholds list|show|create|set|remove`: limits of figures beyond which an incident opens."""

import argparse
from typing import Any, Final

from operator_cli.api.client import Api, open_api
from operator_cli.api.default_environment import Effect
from operator_cli.api.names import resolve_environment
from operator_cli.arguments import ON_OFF, add_verbs, add_yes_argument, confirm
from operator_cli.durations import parse_duration
from operator_cli.errors import UsageError
from operator_cli.messages import print_result, qualify_commands
from operator_cli.monitors.monitor_commands import add_environment_option
from operator_cli.notifications.find import add_threshold_argument, find_threshold
from operator_cli.notifications.option_names import names_options
from operator_cli.terminal_text import sanitize
from pipeline_contracts.alert_kinds import SEVERITIES

_KINDS: Final = ("queue.wait", "queue.size", "service.error_rate", "service.latency", "metric.value")
_AGGREGATIONS: Final = ("avg", "min", "max", "sum", "last")
_VERBS: Final = {
    "list": "list thresholds with the last values of their figures",
    "show": "show a threshold",
    "create": "open an incident while a figure is beyond a value",
    "set": "change the value or settings of a threshold",
    "remove": "remove a threshold, which ends its incident",
}
_DESCRIPTIONS: Final = {
    "create": "queue.wait is the age of the oldest job in seconds, queue.size the number of waiting jobs, "
    "service.error_rate in percent, service.latency the p95 in milliseconds, metric.value a metric in its own unit.",
}
_SETTINGS: Final = (
    "kind",
    "target",
    "service",
    "aggregation",
    "recovery",
    "window_seconds",
    "pending_seconds",
    "severity",
)


def register_thresholds(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "thresholds",
        help="limits of figures, beyond which an incident opens",
        description="Thresholds of queues, services and metrics. The incident opens after the figure was beyond the "
        "threshold for the pending time, and ends at the recovery value. `pharos thresholds` alone lists them.",
    )
    add_verbs(parser, _VERBS, _run, _add_arguments, _DESCRIPTIONS, default="list")


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    match verb:
        case "list":
            add_environment_option(parser, is_filter=True)
            return
        case "create":
            parser.add_argument("name", metavar="NAME", help="the name, unique in the environment")
            parser.add_argument("kind", metavar="KIND", choices=_KINDS, help=", ".join(_KINDS))
            parser.add_argument("target", metavar="TARGET", help="name of the queue, service or metric")
            add_environment_option(parser)
            _add_settings(parser, is_new=True)
            return
    add_threshold_argument(parser)
    if verb == "set":
        parser.add_argument("--name", metavar="NAME", help="the new name")
        parser.add_argument("--kind", choices=_KINDS, help="another figure")
        parser.add_argument("--target", metavar="TARGET", help="name of the queue, service or metric")
        _add_settings(parser, is_new=False)
        parser.add_argument("--enabled", choices=ON_OFF, help="whether it is evaluated")
    if verb == "remove":
        add_yes_argument(parser)


def _add_settings(parser: argparse.ArgumentParser, *, is_new: bool) -> None:
    value = parser.add_mutually_exclusive_group(required=is_new)
    value.add_argument("--above", type=float, metavar="VALUE", help="the incident opens above this value")
    value.add_argument("--below", type=float, metavar="VALUE", help="the incident opens below this value")
    parser.add_argument(
        "--recovery", type=float, metavar="VALUE", help="the incident ends at this value (the threshold)"
    )
    parser.add_argument(
        "--window",
        type=parse_duration,
        metavar="TIME",
        dest="window_seconds",
        help="time over which the figure is taken (5m; 1m to 1h)",
    )
    parser.add_argument(
        "--pending",
        type=parse_duration,
        metavar="TIME",
        dest="pending_seconds",
        help="how long the figure must be beyond the value (1m; up to 1d)",
    )
    parser.add_argument(
        "--severity", choices=SEVERITIES, help="the severity of the incident (the severity of the kind)"
    )
    parser.add_argument("--service", metavar="NAME", help="for a metric: only of this service")
    parser.add_argument("--aggregation", choices=_AGGREGATIONS, help="for a metric (avg)")


@names_options
def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    match arguments.verb:
        case "list":
            return _list(arguments, api)
        case "create":
            environment = resolve_environment(api, arguments.environment, effect=Effect.ADDS)
            body = {"name": arguments.name, **_read_settings(arguments)}
            created = api.post("environments", environment.id, "thresholds", body=body)
            return print_result(arguments, created, _show_created)
        case "set":
            return _set(arguments, api)
    threshold = find_threshold(api, arguments.threshold_name)
    if arguments.verb == "show":
        return print_result(arguments, threshold, _show_one)
    if not confirm(arguments, f"remove threshold {threshold['name']}, and end its incident"):
        return 1
    removed = api.delete("thresholds", threshold["id"])
    return print_result(arguments, removed, lambda row: print(f"Threshold {row['name']} is removed."))


def _list(arguments: argparse.Namespace, api: Api) -> int:
    environment = None
    if arguments.environment is not None:
        environment = resolve_environment(api, arguments.environment, effect=Effect.READS).id
    rows = api.get_all("thresholds", query={"environment": environment})
    return print_result(arguments, rows, lambda rows: _show_list(arguments, rows))


def _set(arguments: argparse.Namespace, api: Api) -> int:
    changes = _read_settings(arguments)
    if arguments.name is not None:
        changes["name"] = arguments.name
    if arguments.enabled is not None:
        changes["enabled"] = ON_OFF[arguments.enabled]
    if not changes:
        raise UsageError("Name a setting to change: `pharos thresholds set --help` lists them.")
    threshold = find_threshold(api, arguments.threshold_name)
    return print_result(arguments, api.patch("thresholds", threshold["id"], body=changes), _show_one)


def _read_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the given settings in the form of the API."""
    given = {name: getattr(arguments, name, None) for name in _SETTINGS}
    for direction in ("above", "below"):
        if (value := getattr(arguments, direction)) is not None:
            given |= {"direction": direction, "threshold": value}
    return {name: value for name, value in given.items() if value is not None}


def _show_list(arguments: argparse.Namespace, thresholds: list[dict[str, Any]]) -> None:
    # Imported here and below: rich is slow to import, and --json needs none of it.
    from operator_cli.notifications.threshold_tables import show_thresholds

    show_thresholds(arguments, thresholds)


def _show_created(threshold: dict[str, Any]) -> None:
    _show_one(threshold)
    print(
        qualify_commands(
            f"Within a minute, `pharos thresholds show {threshold['id']}` shows its value. If that is `no data`, "
            f"check the name {sanitize(threshold['target'])}."
        )
    )


def _show_one(threshold: dict[str, Any]) -> None:
    from operator_cli.notifications.threshold_tables import show_threshold

    show_threshold(threshold)
