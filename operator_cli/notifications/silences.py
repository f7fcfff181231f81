"""`pharos silences list|create|end`: times in which incidents are not sent."""

import argparse
from typing import Any, Final

from operator_cli.api.client import Api, open_api
from operator_cli.api.default_environment import Effect
from operator_cli.api.names import resolve_environment, resolve_project
from operator_cli.arguments import add_project_argument, add_verbs
from operator_cli.durations import format_utc_minute
from operator_cli.messages import print_result, qualify_commands
from operator_cli.monitors.monitor_commands import add_environment_option
from operator_cli.notifications.option_names import names_options
from operator_cli.notifications.time_arguments import add_end_arguments, parse_time, read_end

_VERBS: Final = {
    "list": "list silences that have not ended",
    "create": "silence a project, an environment or some kinds for some time",
    "end": "end a silence now; incidents that it holds are sent if they are still open",
}
_DESCRIPTIONS: Final = {
    "create": "For maintenance. Without --project and --environment, it applies to the whole account. Incidents "
    "that are still open at the end are sent then; the end of an incident that was sent is always sent.",
}


def register_silences(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "silences",
        help="times in which incidents are not sent",
        description="Silences, such as for maintenance; each has an end. `pharos silences` alone lists them; `pharos "
        "incidents silence` silences one incident.",
    )
    add_verbs(parser, _VERBS, _run, _add_arguments, _DESCRIPTIONS, default="list")


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    if verb == "end":
        parser.add_argument(
            "silence", type=int, metavar="SILENCE", help="the number of the silence, as `list` shows it"
        )
        return
    add_project_argument(parser, "only this project: its name or ID")
    if verb == "list":
        return
    add_environment_option(parser, is_filter=True)
    parser.add_argument(
        "--kind",
        action="append",
        dest="kinds",
        metavar="KIND",
        help="only this kind (heartbeat.down), or all of a family (heartbeat); may be repeated",
    )
    add_end_arguments(parser)
    parser.add_argument("--from", type=parse_time, metavar="TIME", dest="begin", help="when it begins (now)")
    parser.add_argument("--reason", metavar="TEXT", default="", help="for others to read")


@names_options
def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    match arguments.verb:
        case "list":
            project = None if arguments.project_id is None else resolve_project(api, arguments.project_id).id
            rows = api.get_all("silences", query={"project": project})
            return print_result(arguments, rows, lambda rows: _show_list(arguments, rows))
        case "create":
            return print_result(arguments, api.post("silences", body=_read(arguments, api)), _show_created)
    ended = api.delete("silences", arguments.silence)
    return print_result(arguments, ended, lambda row: print(f"Silence {row['id']} has ended."))


def _read(arguments: argparse.Namespace, api: Api) -> dict[str, Any]:
    """Return the silence in the form of the API."""
    body: dict[str, Any] = {
        "reason": arguments.reason,
        "ends_at": read_end(api, arguments, arguments.begin).isoformat(),
    }
    if arguments.begin is not None:
        body["starts_at"] = arguments.begin.isoformat()
    if arguments.kinds:
        body["kinds"] = arguments.kinds
    if arguments.environment is not None:
        body["environment"] = resolve_environment(
            api, arguments.environment, arguments.project_id, effect=Effect.ADDS
        ).id
    elif arguments.project_id is not None:
        body["project"] = resolve_project(api, arguments.project_id).id
    return body


def _show_list(arguments: argparse.Namespace, silences: list[dict[str, Any]]) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.notifications.silence_tables import show_silences

    show_silences(arguments, silences)


def _show_created(silence: dict[str, Any]) -> None:
    begin = "" if silence["state"] == "active" else f" from {format_utc_minute(silence['starts_at'])}"
    print(
        qualify_commands(
            f"Silence {silence['id']}{begin} until {format_utc_minute(silence['ends_at'])}. "
            f"`pharos silences end {silence['id']}` ends it earlier."
        )
    )
