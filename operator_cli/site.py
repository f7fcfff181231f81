"""`pharos site create|list|show|add-domain|remove-domain|set-timezone|goal|remove-goal|remove`."""

import argparse
import json
from typing import Any

from operator_cli.actions import add_actions
from operator_cli.ask import WHICH, ask
from operator_cli.confirm import add_yes_argument, confirmed
from operator_cli.tracker_tag import tracker_tag

_ACTIONS = {
    "create": "make one; tells the script tag to put into its pages",
    "list": "show each with its newest event",
    "show": "show one with its goals and what was dropped",
    "add-domain": "take events from one more origin",
    "remove-domain": "take no more events from an origin, within 5 s",
    "set-timezone": "let its days follow another clock, those before included",
    "goal": "add a goal: an event or a path",
    "remove-goal": "remove a goal; what it counted stays stored",
    "remove": "remove one with its goals; what was collected stays stored until its time is over, and is shown no more",
}


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "site",
        help="make, list, show, change and remove websites that are measured, and their goals",
        description=f"Websites whose visits are measured, without cookies. `pharos report` shows them. {WHICH} What "
        "came in is read from PHAROS_CLICKHOUSE_URL then.",
    )
    add_actions(parser, _ACTIONS, _run, _add_arguments)


def _add_arguments(action: argparse.ArgumentParser, name: str) -> None:
    if name not in ("create", "list"):
        action.add_argument("id", type=int, metavar="ID", help="ID as `list` shows it")
    match name:
        case "create":
            _add_create_arguments(action)
        case "add-domain" | "remove-domain":
            action.add_argument("origin", metavar="ORIGIN", help="https://shop.example")
        case "set-timezone":
            action.add_argument("timezone", metavar="ZONE", help="Europe/Oslo")
        case "goal":
            target = action.add_mutually_exclusive_group(required=True)
            target.add_argument("--event", metavar="NAME", help="reached by events of this name: purchase")
            target.add_argument("--path", metavar="PATH", help="reached by views of this page: /welcome")
            action.add_argument("--name", help="what it is called (the event or the path)")
        case "remove-goal":
            action.add_argument("goal_id", type=int, metavar="GOAL_ID", help="ID as `show` shows it")
        case "remove":
            add_yes_argument(action)


def _add_create_arguments(create: argparse.ArgumentParser) -> None:
    create.add_argument(
        "--domain",
        action="append",
        required=True,
        metavar="ORIGIN",
        help="where its pages are: https://shop.example, https://*.shop.example; may be given several times",
        dest="domains",
    )
    create.add_argument("--name", help="what it is called (the first domain's host)")
    create.add_argument("--timezone", metavar="ZONE", help="whose days: Europe/Oslo (UTC)")
    create.add_argument(
        "--project", metavar="ID", help="prj_…; may be left out where there is only one", dest="project_id"
    )


def _run(arguments: argparse.Namespace) -> int:
    if arguments.action == "list":
        return run_list(arguments)
    if arguments.action == "remove" and not confirmed(
        arguments, f"remove site {arguments.id} with its goals, and take no more events of it"
    ):
        return 1
    told = _ask(arguments)
    if arguments.json:
        print(json.dumps(told))
        return 0
    _tell(arguments, told)
    if "warning" in told:
        print(told["warning"])
    return 0


def run_list(arguments: argparse.Namespace) -> int:
    """All sites at a glance."""
    told = ask(arguments, "sites/list")
    if arguments.json:
        print(json.dumps(told))
    else:
        # Only here: a program that asks for JSON need not wait for what draws tables.
        from operator_cli.site_tables import show_sites

        show_sites(told)
    return 0


def _ask(arguments: argparse.Namespace) -> Any:
    match arguments.action:
        case "create":
            names = ("domains", "name", "timezone", "project_id")
            return ask(arguments, "sites/create", {name: getattr(arguments, name) for name in names})
        case "show" | "remove":
            return ask(arguments, f"sites/{arguments.action}", {"id": arguments.id})
        case "add-domain":
            return ask(arguments, "sites/domains", {"id": arguments.id, "add": [arguments.origin]})
        case "remove-domain":
            return ask(arguments, "sites/domains", {"id": arguments.id, "remove": [arguments.origin]})
        case "set-timezone":
            wanted = {"id": arguments.id, "timezone": arguments.timezone}
            return ask(arguments, "sites/timezone", wanted)
        case "goal":
            names = ("id", "name", "event", "path")
            return ask(arguments, "sites/goals-add", {name: getattr(arguments, name) for name in names})
    return ask(arguments, "sites/goals-remove", {"id": arguments.id, "goal_id": arguments.goal_id})


def _tell(arguments: argparse.Namespace, told: dict[str, Any]) -> None:
    match arguments.action:
        case "create":
            print(
                f"Site {told['id']}, tracker ID {told['tracker_id']}. Put this into the head of its pages:\n"
            )
            print(f"  {tracker_tag(arguments.data, told['tracker_id'])}")
        case "show":
            from operator_cli.site_tables import show_site

            show_site(told, tracker_tag(arguments.data, told["tracker_id"]))
        case "add-domain" | "remove-domain":
            print(f"Site {told['id']} takes events from {', '.join(told['domains'])}.")
        case "set-timezone":
            print(f"Site {told['id']} has the days of {told['timezone']}.")
        case "goal":
            print(f"Goal {told['id']} of site {told['site_id']}: {told['name']}")
        case "remove-goal":
            print(f"Goal {told['id']} is removed.")
        case "remove":
            print(f"Site {told['id']}, {told['name']}, is removed. Take its script tag out of the pages.")
