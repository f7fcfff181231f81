"""`pharos site create|list|show|rename|add-domain|remove-domain|set-timezone|goal|remove-goal|remove`, and
`pharos sites`."""

import argparse
from http import HTTPStatus
from typing import Any, Final

from operator_cli.api.client import Api, open_api
from operator_cli.api.default_environment import Effect
from operator_cli.api.names import Row, resolve_project, resolve_row
from operator_cli.api.problems import ApiRefused
from operator_cli.arguments import (
    add_client_arguments,
    add_project_argument,
    add_verbs,
    add_yes_argument,
    complete,
    confirm,
)
from operator_cli.errors import CommandFailed, UsageError
from operator_cli.messages import print_result
from operator_cli.sites.find_site import find_site, tracker_tag

_VERBS = {
    "create": "create a site; prints the script tag for its pages",
    "list": "list sites with their newest events",
    "show": "show a site with its goals and its dropped events",
    "rename": "rename a site",
    "add-domain": "accept events from one more origin",
    "remove-domain": "refuse events from an origin, within 5 s",
    "set-timezone": "set the time zone of a site's days, also of past days",
    "goal": "add a goal: an event or a path",
    "remove-goal": "remove a goal; its conversions stay stored",
    "remove": "remove a site with its goals",
}
_DESCRIPTIONS = {
    "create": "Events are accepted from its domains only.",
    "goal": "It also counts past visits.",
    "remove": "Its events are no longer shown, and stay stored until their retention ends.",
}
_MAX_ATTEMPTS: Final = 5


def register_site(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "site",
        help="measured websites and their goals",
        description="Websites whose visits are measured, without cookies. `pharos report` shows the visits.",
    )
    add_verbs(parser, _VERBS, _run, _add_arguments, _DESCRIPTIONS)


def register_sites(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "sites",
        help="show all sites at a glance",
        description="Sites with their domains and newest events.",
    )
    add_client_arguments(parser)
    parser.set_defaults(run=_run_list)


def add_site_argument(parser: argparse.ArgumentParser, *, is_optional: bool = False) -> None:
    """Add `SITE`."""
    site = parser.add_argument(
        "site",
        metavar="SITE",
        nargs="?" if is_optional else None,
        help="the site: its name, ID or tracker ID" + ("; by default the only one" if is_optional else ""),
    )
    complete(site, "site")


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    if verb == "create":
        _add_create_arguments(parser)
        return
    if verb == "list":
        return
    add_site_argument(parser, is_optional=verb == "show")
    match verb:
        case "rename":
            parser.add_argument("name", metavar="NAME", help="the new name")
        case "add-domain" | "remove-domain":
            parser.add_argument("origin", metavar="ORIGIN", help="https://shop.example")
        case "set-timezone":
            parser.add_argument("timezone", metavar="ZONE", help="Europe/Oslo")
        case "goal":
            target = parser.add_mutually_exclusive_group(required=True)
            target.add_argument("--event", metavar="NAME", help="reached by events of this name: purchase")
            target.add_argument("--path", metavar="PATH", help="reached by views of this page: /welcome")
            parser.add_argument("--name", help="the name (the event or the path)")
        case "remove-goal":
            parser.add_argument("goal", metavar="GOAL", help="the goal: its name or ID")
        case "remove":
            add_yes_argument(parser)


def _add_create_arguments(create: argparse.ArgumentParser) -> None:
    create.add_argument("name", metavar="NAME", nargs="?", help="the name (the host of the first domain)")
    # The name of this option in earlier versions.
    create.add_argument("--name", help=argparse.SUPPRESS, dest="name_flag")
    create.add_argument(
        "--domain",
        action="append",
        required=True,
        metavar="ORIGIN",
        help="the origin of its pages: https://shop.example, https://*.shop.example; may be repeated",
        dest="domains",
    )
    create.add_argument("--timezone", metavar="ZONE", help="time zone of its days: Europe/Oslo (UTC)")
    add_project_argument(create, dest="project")


def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    match arguments.verb:
        case "list":
            return _run_list(arguments)
        case "create":
            return print_result(arguments, _create(arguments, api), lambda site: _show_created(api, site))
    site = find_site(api, arguments.site)
    path = ("analytics", "sites", site["id"])
    match arguments.verb:
        case "show":
            return _show(arguments, api, site)
        case "rename":
            renamed = api.patch(*path, body={"name": arguments.name})
            return print_result(
                arguments, renamed, lambda new: print(f"Site {site['name']} is called {new['name']} now.")
            )
        case "add-domain" | "remove-domain":
            return print_result(arguments, change_domains(arguments, api, site), _show_domains)
        case "set-timezone":
            changed = api.patch(*path, body={"timezone": arguments.timezone})
            return print_result(
                arguments,
                changed,
                lambda site: print(f"The days of site {site['name']} are those of {site['timezone']}."),
            )
        case "goal":
            body = {name: getattr(arguments, name) for name in ("name", "event", "path")}
            goal = api.post(*path, "goals", body=body)
            return print_result(
                arguments,
                goal,
                lambda goal: print(f"Goal {goal['id']} of site {site['name']}: {goal['name']}"),
            )
        case "remove-goal":
            goal = resolve_row(api, *path, "goals", name=arguments.goal, noun="goal", keys=("id", "name"))
            return print_result(
                arguments,
                api.delete(*path, "goals", goal["id"]),
                lambda goal: print(f"Goal {goal['name']} of site {site['name']} is removed."),
            )
    if not confirm(
        arguments, f"remove site {site['id']}, {site['name']}, with its goals, and refuse its events"
    ):
        return 1
    return print_result(arguments, api.delete(*path), _show_removed)


def _run_list(arguments: argparse.Namespace) -> int:
    def show(sites: list[dict[str, Any]]) -> None:
        # Imported here and below: rich is slow to import, and --json needs none of it.
        from operator_cli.sites.tables import show_sites

        show_sites(arguments, sites)

    return print_result(arguments, open_api(arguments).get_all("analytics", "sites"), show)


def _create(arguments: argparse.Namespace, api: Api) -> Any:
    if arguments.name is not None and arguments.name_flag is not None:
        raise UsageError(f"{arguments.name!r} and --name are two names: leave one of them out.")
    project = resolve_project(api, arguments.project, effect=Effect.ADDS)
    body = {
        "name": arguments.name_flag if arguments.name is None else arguments.name,
        "domains": arguments.domains,
        "timezone": arguments.timezone,
    }
    return api.post("projects", project.id, "sites", body=body)


def _show(arguments: argparse.Namespace, api: Api, site: Row) -> int:
    path = ("analytics", "sites", site["id"])
    details = site if "dropped_events" in site else api.get(*path)
    whole = {**details, "goals": api.get_all(*path, "goals")}

    def show(whole: dict[str, Any]) -> None:
        from operator_cli.sites.tables import show_site

        show_site(arguments, whole, tracker_tag(api, whole))

    return print_result(arguments, whole, show)


def change_domains(arguments: argparse.Namespace, api: Api, site: Row) -> Any:
    """Add or remove a domain, and return the site. Raises `CommandFailed`.

    Repeats the change if another request has changed the site meanwhile.
    """
    path = ("analytics", "sites", site["id"])
    for _ in range(_MAX_ATTEMPTS):
        present = api.request("GET", *path)
        domains = _changed_domains(arguments, present.data)
        try:
            return api.patch(*path, body={"domains": domains}, etag=present.etag)
        except ApiRefused as error:
            if error.status != HTTPStatus.PRECONDITION_FAILED:
                raise
    raise CommandFailed("Other requests keep changing this site at this moment. Run the command again.")


def _changed_domains(arguments: argparse.Namespace, site: Row) -> list[str]:
    # Imported here: other verbs do not need it.
    from pipeline_contracts.origins import normalize_origin

    domains = list(site["domains"])
    if arguments.verb == "add-domain":
        # Pass the domain unchanged: the API normalizes it, and ignores a domain that the site has already.
        return [*domains, arguments.origin]
    try:
        origin = normalize_origin(arguments.origin)
    except ValueError as error:
        raise UsageError(f"{error}.") from None
    if origin not in domains:
        raise CommandFailed(f"Site {site['name']} has no domain {origin}; it has {', '.join(domains)}.")
    domains.remove(origin)
    if not domains:
        raise CommandFailed(
            f"{origin} is the only domain of site {site['name']}. Add another one first: "
            f"`pharos site add-domain {site['id']} ORIGIN`."
        )
    return domains


def _show_created(api: Api, site: dict[str, Any]) -> None:
    print(f"Site {site['id']}, tracker ID {site['tracker_id']}. Put this into the head of its pages:\n")
    print(f"  {tracker_tag(api, site)}")


def _show_domains(site: dict[str, Any]) -> None:
    print(f"Site {site['name']} accepts events from {', '.join(site['domains'])}.")


def _show_removed(site: dict[str, Any]) -> None:
    print(f"Site {site['name']} is removed. Remove its script tag from the pages.")
