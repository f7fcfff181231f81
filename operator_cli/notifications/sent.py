"""`pharos notifications list|show|resend`: sent notifications with their recipients and deliveries."""

import argparse
from typing import Any, Final

from operator_cli.api.client import Api, open_api
from operator_cli.api.names import resolve_project
from operator_cli.arguments import add_project_argument, add_verbs, complete
from operator_cli.counts import add_limit_argument
from operator_cli.durations import parse_moment
from operator_cli.messages import print_result, qualify_commands
from operator_cli.notifications.find import find_channel, find_incident, find_notification

_VERBS: Final = {
    "list": "list notifications with their recipients and states",
    "show": "show the text of a notification, and every attempt to deliver it",
    "resend": "send a notification again, with the same message ID",
}
_DESCRIPTIONS: Final = {"list": "The newest first, of the last 90 days."}
_STATUSES: Final = ("pending", "sent", "failed", "canceled")


def register_notifications(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "notifications",
        help="sent notifications with their recipients and deliveries",
        description="Messages about incidents, one for each recipient. `pharos notifications` alone lists them; "
        "`pharos rules` shows their recipients, `pharos channels` their destinations.",
    )
    add_verbs(parser, _VERBS, _run, _add_arguments, _DESCRIPTIONS, default="list")


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    if verb != "list":
        parser.add_argument(
            "notification",
            metavar="NOTIFICATION",
            help="the ID of the notification, or the beginning that `list` shows",
        )
        return
    parser.add_argument("--status", choices=_STATUSES, help="only with this status")
    channel = parser.add_argument("--channel", metavar="CHANNEL", help="only to this channel: name or ID")
    complete(channel, "channel")
    parser.add_argument("--incident", metavar="INCIDENT", help="only notifications that list this incident")
    add_project_argument(parser, "only of this project")
    parser.add_argument(
        "--since",
        type=parse_moment,
        metavar="TIME",
        help="only since this time: 2d, 2026-11-20T09:30Z",
    )
    add_limit_argument(parser, 20)


def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    if arguments.verb == "list":
        rows = _list(arguments, api)
        return print_result(arguments, rows, lambda rows: _show_list(arguments, rows))
    notification = find_notification(api, arguments.notification)
    if arguments.verb == "show":
        return print_result(arguments, notification, _show_one)
    resent = api.post("notifications", notification["id"], "resend")
    return print_result(arguments, resent, _show_resent)


def _list(arguments: argparse.Namespace, api: Api) -> list[dict[str, Any]]:
    query: dict[str, Any] = {"status": arguments.status}
    if arguments.channel is not None:
        query["channel"] = find_channel(api, arguments.channel)["id"]
    if arguments.incident is not None:
        query["incident"] = find_incident(api, arguments.incident)["id"]
    if arguments.project_id is not None:
        query["project"] = resolve_project(api, arguments.project_id).id
    if arguments.since is not None:
        query["since"] = arguments.since.isoformat()
    return api.get_all("notifications", query=query, limit=arguments.limit)


def _show_list(arguments: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    # Imported here and below: rich is slow to import, and --json needs none of it.
    from operator_cli.notifications.notification_tables import show_notifications

    show_notifications(
        arguments,
        rows,
        "No notifications. `pharos rules` shows the recipients of incidents,\n`pharos channels test "
        "CHANNEL` sends a test.",
    )


def _show_one(notification: dict[str, Any]) -> None:
    from operator_cli.notifications.notification_tables import show_notification

    show_notification(notification)


def _show_resent(notification: dict[str, Any]) -> None:
    print(
        qualify_commands(
            f"It is sent again to {notification['recipient']}. "
            f"`pharos notifications show {notification['id']}` shows its progress."
        )
    )
