"""Command `pharos report`: visits of a site, as a page or as JSON."""

import argparse
import json
import sys

from operator_cli.control_client import (
    WHICH_INSTALLATION_AND_STORE,
    add_data_and_json_arguments,
    request_action,
)
from operator_cli.sites.site import format_tracker_tag

_FILTERS = {
    "path": "visits that viewed this page: /pricing",
    "source": "visits from this source: Google, newsletter",
    "campaign": "visits of this campaign",
    "device": "Desktop, Mobile or Tablet",
    "country": "visits from this country, two letters: NO",
}
_WIDTH_WITHOUT_TERMINAL = 100


def register_report(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "report",
        help="show who visits a site",
        description="Visits of a site: metrics with their change, pages, sources, goals, page speed. docs/analytics.md "
        f"describes how each is counted. {WHICH_INSTALLATION_AND_STORE}",
    )
    parser.add_argument("site", metavar="SITE", help="ID, tracker ID or name")
    parser.add_argument(
        "--days", default="30", metavar="N", help="up to today: 1 (by the hour), 7, 30 (default), 90 or 365"
    )
    for name, summary in _FILTERS.items():
        parser.add_argument(f"--{name}", metavar=name.upper(), help=summary)
    add_data_and_json_arguments(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    by_id = arguments.site.isascii() and arguments.site.isdigit()
    report = request_action(
        arguments,
        "sites/report",
        {
            "id" if by_id else "name": arguments.site,
            "days": arguments.days,
            "filters": {name: getattr(arguments, name) for name in _FILTERS},
        },
    )
    if arguments.json:
        print(json.dumps(report))
        return 0
    # Imported here: rich is slow to import, and --json needs none of it.
    from rich.console import Console

    from operator_cli.sites.report_page import show_report

    console = Console(width=None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL, highlight=False)
    show_report(console, report, format_tracker_tag(arguments.data, report["site"]["tracker_id"]))
    return 0
