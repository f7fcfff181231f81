"""Command `pharos report`: visits of a site, as a page or as JSON."""

import argparse
from typing import Any

from operator_cli.api.client import Api, open_api
from operator_cli.api.problems import ApiRefused
from operator_cli.arguments import add_client_arguments
from operator_cli.errors import NOT_FOUND
from operator_cli.messages import print_result
from operator_cli.sites.find_site import list_site, tracker_tag
from operator_cli.sites.site import add_site_argument

_FILTERS = {
    "path": "visits that viewed this page: /pricing",
    "source": "visits from this source: Google, newsletter",
    "campaign": "visits of this campaign",
    "device": "Desktop, Mobile or Tablet",
    "country": "visits from this country, two letters: NO",
}


def register_report(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "report",
        help="show the visits of a site",
        description="Visits of a site: metrics with their change, pages, sources, goals, page speed. "
        "docs/reference/analytics.md describes how each is counted.",
    )
    add_site_argument(parser, is_optional=True)
    parser.add_argument(
        "--days", default="30", metavar="N", help="up to today: 1 (by the hour), 7, 30 (default), 90 or 365"
    )
    for name, summary in _FILTERS.items():
        parser.add_argument(f"--{name}", metavar=name.upper(), help=summary)
    add_client_arguments(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)

    def show(report: dict[str, Any]) -> None:
        # Imported here: rich is slow to import, and --json needs none of it.
        from operator_cli.sites.report_page import is_empty, make_console, show_report

        # The list of sites reads the column store, so it is read only for a page that shows the tag.
        tag = tracker_tag(api, list_site(api, str(report["site"]["id"]))) if is_empty(report) else ""
        show_report(make_console(report, is_wide=arguments.wide), report, tag)

    return print_result(arguments, _read_report(arguments, api), show)


def _read_report(arguments: argparse.Namespace, api: Api) -> Any:
    query = {"days": arguments.days, **{name: getattr(arguments, name) for name in _FILTERS}}
    name: str | None = arguments.site
    if name is not None and name.isdecimal():
        try:
            return api.get("analytics", "sites", name, "report", query=query)
        except ApiRefused as error:
            if error.exit_status != NOT_FOUND:
                raise
    return api.get("analytics", "sites", list_site(api, name)["id"], "report", query=query)
