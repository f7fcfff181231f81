"""The settings of this process, and the command `pharos settings`."""

import argparse
import json
import os
from pathlib import Path

from pipeline_contracts.read_settings import describe_settings, read_settings
from pipeline_contracts.settings import Settings


def load_settings() -> Settings:
    """Read the settings from the environment and the files that it names. Raises `BadSettings`."""
    return read_settings(os.environ, lambda path: Path(path).read_text())


def register_settings(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "settings",
        help="list all PHAROS_* variables",
        description="List all PHAROS_* variables with their defaults and meanings.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_list_settings)


def _list_settings(arguments: argparse.Namespace) -> int:
    rows = describe_settings()
    if arguments.json:
        print(json.dumps([{"variable": v, "default": d or None, "meaning": m} for v, d, m in rows], indent=2))
        return 0
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    # Never cut names, because people copy them.
    table.add_column("Variable", no_wrap=True, min_width=max(len(variable) for variable, _, _ in rows))
    table.add_column("Meaning", overflow="fold")
    # The default is not a column of its own, which would leave too little room for the meaning in 80 columns.
    for variable, default, meaning in rows:
        text = Text(meaning)
        table.add_row(variable, text.append(f" [default: {default}]", style="dim") if default else text)
    Console(soft_wrap=False).print(table)
    return 0
