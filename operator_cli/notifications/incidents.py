"""`pharos incidents list|show|acknowledge|silence`: open and resolved problems."""

import argparse
from typing import Any, Final

from operator_cli.api.client import Api, open_api
from operator_cli.api.default_environment import Effect
from operator_cli.api.names import Row, resolve_environment, resolve_project
from operator_cli.arguments import add_project_argument, add_verbs
from operator_cli.counts import add_limit_argument
from operator_cli.durations import format_utc_minute
from operator_cli.messages import print_result, qualify_commands
from operator_cli.monitors.monitor_commands import add_environment_option
from operator_cli.notifications.find import find_incident
from operator_cli.notifications.nobody import warn_if_nobody_is_notified
from operator_cli.notifications.option_names import names_options
from operator_cli.notifications.time_arguments import add_end_arguments

_VERBS: Final = {
    "list": "list incidents, open ones first",
    "show": "show an incident with its figures, the deployment before it and its notifications",
    "acknowledge": "stop the reminders of an incident; its end is still sent",
    "silence": "do not send an incident for some time; its end is still sent",
}
_DESCRIPTIONS: Final = {
    "list": "The newest first. Tests of channels are left out, unless --kind test.",
    "acknowledge": "With --group, all open incidents of the same project, environment and family of kinds.",
    "silence": "With --group, all incidents of the same project, environment and family, also those "
    "that begin meanwhile.",
}
_STATES: Final = {"open": "firing", "acknowledged": "acknowledged", "resolved": "resolved", "all": None}
_FIRING: Final = "firing"


def register_incidents(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "incidents",
        help="incidents: open and resolved problems",
        description="Incidents: heartbeats that are down, deployments that failed, figures beyond their thresholds … "
        "from their beginning to their end. `pharos incidents` alone lists them.",
    )
    add_verbs(parser, _VERBS, _run, _add_arguments, _DESCRIPTIONS, default="list")


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    if verb == "list":
        parser.add_argument("--state", choices=_STATES, default="all", help="by default all")
        add_project_argument(parser, "only of this project")
        add_environment_option(parser, is_filter=True)
        parser.add_argument(
            "--kind", metavar="KIND", help="only this kind (heartbeat.down) or family (heartbeat)"
        )
        add_limit_argument(parser, 20)
        return
    parser.add_argument(
        "incident", metavar="INCIDENT", help="the ID of the incident, or the beginning that `list` shows"
    )
    if verb == "show":
        return
    if verb == "silence":
        add_end_arguments(parser)
        parser.add_argument("--reason", metavar="TEXT", default="", help="for others to read")
    parser.add_argument(
        "--group", action="store_true", help="also the other incidents of its family in its environment"
    )


@names_options
def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    if arguments.verb == "list":
        rows = _list(arguments, api)
        return print_result(arguments, rows, lambda rows: _show_list(arguments, api, rows))
    incident = find_incident(api, arguments.incident)
    match arguments.verb:
        case "show":
            return print_result(arguments, incident, lambda found: _show_one(arguments, found))
        case "acknowledge":
            return _acknowledge(arguments, api, incident)
    return _silence(arguments, api, incident)


def _list(arguments: argparse.Namespace, api: Api) -> list[dict[str, Any]]:
    """Return incidents, all open ones first, then the newest others."""
    query: dict[str, Any] = {"kind": arguments.kind}
    if arguments.environment is not None:
        query["environment"] = resolve_environment(
            api, arguments.environment, arguments.project_id, effect=Effect.READS
        ).id
    elif arguments.project_id is not None:
        query["project"] = resolve_project(api, arguments.project_id).id
    limit, state = arguments.limit, _STATES[arguments.state]
    if state is not None:
        return api.get_all("incidents", query={**query, "state": state}, limit=limit)
    rows = api.get_all("incidents", query={**query, "state": _FIRING}, limit=limit)
    if len(rows) < limit:
        newest = api.get_all("incidents", query=query, limit=limit)
        rows += [row for row in newest if row["state"] != _FIRING][: limit - len(rows)]
    return rows


def _acknowledge(arguments: argparse.Namespace, api: Api, incident: Row) -> int:
    acknowledged = api.post("incidents", incident["id"], "acknowledge", body={"group": arguments.group})
    return print_result(arguments, acknowledged, _show_acknowledged)


def _silence(arguments: argparse.Namespace, api: Api, incident: Row) -> int:
    body: dict[str, Any] = {"reason": arguments.reason, "group": arguments.group}
    if arguments.until is not None:
        body["until"] = arguments.until.isoformat()
    else:
        body["seconds"] = arguments.seconds
    silence = api.post("incidents", incident["id"], "silence", body=body)
    return print_result(arguments, silence, lambda made: _show_silenced(incident, made))


def _show_list(arguments: argparse.Namespace, api: Api, rows: list[dict[str, Any]]) -> None:
    # Imported here and below: rich is slow to import, and --json needs none of it.
    from operator_cli.notifications.incident_tables import show_incidents

    state = "" if arguments.state == "all" else f"{arguments.state} "
    show_incidents(arguments, rows, f"No {state}incidents.")
    if any(row["state"] == _FIRING for row in rows):
        warn_if_nobody_is_notified(api)


def _show_one(arguments: argparse.Namespace, incident: dict[str, Any]) -> None:
    from operator_cli.notifications.incident_tables import show_incident

    show_incident(arguments, incident)


def _show_acknowledged(incident: dict[str, Any]) -> None:
    count = incident["incidents"]
    if count == 0:
        why = "has ended" if incident["state"] != _FIRING else "is acknowledged already"
        print(f"Nothing was changed: the incident {why}.")
    elif count == 1:
        print(f"Acknowledged: {incident['title']}. No reminders follow; its end is sent.")
    else:
        print(f"{count:,} incidents are acknowledged. No reminders follow; their ends are sent.")


def _show_silenced(incident: Row, silence: dict[str, Any]) -> None:
    what = incident["title"] if silence["incident"] is not None else "The incident and all of its group"
    print(
        qualify_commands(
            f"Silent until {format_utc_minute(silence['ends_at'])}: {what}. "
            f"`pharos silences end {silence['id']}` ends it earlier."
        )
    )
