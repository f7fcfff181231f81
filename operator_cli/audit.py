"""`pharos audit`: who changed what, when and from where."""

import argparse
from typing import Any

from operator_cli.ask import WHICH, add_ask_arguments, ask
from operator_cli.tell import tell


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "audit",
        help="show who changed what, when and from where",
        description="The newest entries of the audit log, newest first: what was written through the API or by an "
        f"operator's command. {WHICH}",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="how many, 1 to 1,000 (50)")
    parser.add_argument(
        "--subject",
        metavar="TEXT",
        help="only what was done to this: `deployment 7`, or an ID alone: prj_…",
    )
    add_ask_arguments(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    wanted = {"limit": arguments.limit, "subject": arguments.subject}
    return tell(arguments, ask(arguments, "audit/list", wanted), _show)


def _show(entries: list[dict[str, Any]]) -> None:
    # Only here: a program that asks for JSON need not wait for what draws tables.
    from operator_cli.audit_table import show_entries

    show_entries(entries)
