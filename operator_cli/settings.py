"""`pharos settings`: every `PHAROS_*` variable with its default and meaning."""

import argparse
import json

from pipeline_contracts.settings import describe_settings


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("settings", help="list all PHAROS_* variables")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    rows = describe_settings()
    if arguments.json:
        print(json.dumps([{"variable": v, "default": d or None, "meaning": m} for v, d, m in rows], indent=2))
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table("Variable", "Default", "Meaning", box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    Console(soft_wrap=False).print(table)
    return 0
