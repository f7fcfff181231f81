"""Command `pharos audit`."""

import argparse
from typing import Any

from operator_cli.control_client import WHICH_INSTALLATION, add_data_and_json_arguments, request_action
from operator_cli.messages import print_result


def register_audit(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "audit",
        help="show who changed what, when and from where",
        description="The newest entries of the audit log, newest first: writes through the API and by commands of "
        f"operators. {WHICH_INSTALLATION}",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="how many, 1 to 1,000 (50)")
    parser.add_argument(
        "--subject",
        metavar="TEXT",
        help="only entries about this subject: `deployment 7`, or an ID alone: prj_…",
    )
    add_data_and_json_arguments(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    params = {"limit": arguments.limit, "subject": arguments.subject}
    return print_result(arguments, request_action(arguments, "audit/list", params), _show)


def _show(entries: list[dict[str, Any]]) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.accounts.tables import show_audit_entries

    show_audit_entries(entries)
