"""Commands `pharos site …` and `sites`."""

import argparse
import json
from pathlib import Path
from typing import Any

from operator_cli.arguments import add_subcommands, add_yes_argument, confirm
from operator_cli.control_client import WHICH_INSTALLATION, add_data_and_json_arguments, request_action
from operator_cli.credentials import get_base_url

_SUBCOMMANDS = {
    "create": "create a site; prints the script tag for its pages",
    "list": "list sites with their newest events",
    "show": "show one with its goals and its dropped events",
    "add-domain": "accept events from one more origin",
    "remove-domain": "refuse events from an origin, within 5 s",
    "set-timezone": "set the time zone of its days, past ones included",
    "goal": "add a goal: an event or a path",
    "remove-goal": "remove a goal; its conversions stay stored",
    "remove": "remove one with its goals; its events are no longer shown and stay stored until their retention ends",
}


def register_site(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "site",
        help="create, list, show, change and remove websites that are measured, and their goals",
        description="Websites whose visits are measured, without cookies. `pharos report` shows the visits. "
        f"{WHICH_INSTALLATION} Events are read from PHAROS_CLICKHOUSE_URL then.",
    )
    add_subcommands(parser, _SUBCOMMANDS, _run, _add_arguments)


def _add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    if name not in ("create", "list"):
        parser.add_argument("id", type=int, metavar="ID", help="ID as `list` shows it")
    match name:
        case "create":
            _add_create_arguments(parser)
        case "add-domain" | "remove-domain":
            parser.add_argument("origin", metavar="ORIGIN", help="https://shop.example")
        case "set-timezone":
            parser.add_argument("timezone", metavar="ZONE", help="Europe/Oslo")
        case "goal":
            target = parser.add_mutually_exclusive_group(required=True)
            target.add_argument("--event", metavar="NAME", help="reached by events of this name: purchase")
            target.add_argument("--path", metavar="PATH", help="reached by views of this page: /welcome")
            parser.add_argument("--name", help="its name (the event or the path)")
        case "remove-goal":
            parser.add_argument("goal_id", type=int, metavar="GOAL_ID", help="ID as `show` shows it")
        case "remove":
            add_yes_argument(parser)


def _add_create_arguments(create: argparse.ArgumentParser) -> None:
    create.add_argument(
        "--domain",
        action="append",
        required=True,
        metavar="ORIGIN",
        help="where its pages are: https://shop.example, https://*.shop.example; may be given several times",
        dest="domains",
    )
    create.add_argument("--name", help="its name (the first domain's host)")
    create.add_argument("--timezone", metavar="ZONE", help="time zone of its days: Europe/Oslo (UTC)")
    create.add_argument(
        "--project", metavar="ID", help="prj_…; may be left out where there is only one", dest="project_id"
    )


def _run(arguments: argparse.Namespace) -> int:
    if arguments.subcommand == "list":
        return run_list(arguments)
    if arguments.subcommand == "remove" and not confirm(
        arguments, f"remove site {arguments.id} with its goals, and refuse its events"
    ):
        return 1
    result = _request(arguments)
    if arguments.json:
        print(json.dumps(result))
        return 0
    _show(arguments, result)
    if "warning" in result:
        print(result["warning"])
    return 0


def run_list(arguments: argparse.Namespace) -> int:
    """Print all sites. Return exit status 0."""
    result = request_action(arguments, "sites/list")
    if arguments.json:
        print(json.dumps(result))
    else:
        # Imported here: rich is slow to import, and --json needs none of it.
        from operator_cli.sites.tables import show_sites

        show_sites(result)
    return 0


def _request(arguments: argparse.Namespace) -> Any:
    match arguments.subcommand:
        case "create":
            names = ("domains", "name", "timezone", "project_id")
            return request_action(
                arguments, "sites/create", {name: getattr(arguments, name) for name in names}
            )
        case "show" | "remove":
            return request_action(arguments, f"sites/{arguments.subcommand}", {"id": arguments.id})
        case "add-domain":
            return request_action(arguments, "sites/domains", {"id": arguments.id, "add": [arguments.origin]})
        case "remove-domain":
            return request_action(
                arguments, "sites/domains", {"id": arguments.id, "remove": [arguments.origin]}
            )
        case "set-timezone":
            params = {"id": arguments.id, "timezone": arguments.timezone}
            return request_action(arguments, "sites/timezone", params)
        case "goal":
            names = ("id", "name", "event", "path")
            return request_action(
                arguments, "sites/goals-add", {name: getattr(arguments, name) for name in names}
            )
    return request_action(arguments, "sites/goals-remove", {"id": arguments.id, "goal_id": arguments.goal_id})


def _show(arguments: argparse.Namespace, result: dict[str, Any]) -> None:
    match arguments.subcommand:
        case "create":
            print(
                f"Site {result['id']}, tracker ID {result['tracker_id']}. Put this into the head of its pages:\n"
            )
            print(f"  {format_tracker_tag(arguments.data, result['tracker_id'])}")
        case "show":
            from operator_cli.sites.tables import show_site

            show_site(result, format_tracker_tag(arguments.data, result["tracker_id"]))
        case "add-domain" | "remove-domain":
            print(f"Site {result['id']} accepts events from {', '.join(result['domains'])}.")
        case "set-timezone":
            print(f"The days of site {result['id']} are those of {result['timezone']}.")
        case "goal":
            print(f"Goal {result['id']} of site {result['site_id']}: {result['name']}")
        case "remove-goal":
            print(f"Goal {result['id']} is removed.")
        case "remove":
            print(f"Site {result['id']}, {result['name']}, is removed. Remove its script tag from the pages.")


def register_sites(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "sites", help="show all sites at a glance", description=f"Sites. {WHICH_INSTALLATION}"
    )
    add_data_and_json_arguments(parser)
    parser.set_defaults(run=run_list)


def format_tracker_tag(data: Path, tracker_id: str) -> str:
    """Return the script tag that loads the tracker, from the installation whose credentials are in `data`."""
    host = get_base_url(data).removesuffix("/api")
    return f'<script defer src="{host}/tracker/v1.js" data-site="{tracker_id}"></script>'
