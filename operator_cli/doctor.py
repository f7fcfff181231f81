"""The command `pharos doctor`: what this installation runs on."""

import argparse
import json
import platform
from importlib.metadata import version

from operator_cli.settings import load_settings


def register_doctor(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "doctor",
        help="show what this installation runs on",
        description="Show the versions of Pharos and Python, and what validates request bodies, of the installation "
        "that runs this command. It asks no running process: run it where the edge runs.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_show)


def _show(arguments: argparse.Namespace) -> int:
    facts = _find_facts()
    if arguments.json:
        print(json.dumps(facts, indent=2))
        return 0
    width = max(map(len, facts))
    for name, fact in facts.items():
        print(f"{name:<{width}}  {fact}")
    return 0


def _find_facts() -> dict[str, str]:
    """Return what is found, by name. Raises `BadSettings`."""
    from ingest_edge.accelerator import find_accelerator

    _, validator = find_accelerator(load_settings().accelerator)
    return {
        "Pharos": version("pharos"),
        "Python": f"{platform.python_version()} on {platform.platform()}",
        "Request bodies are validated by": validator,
    }
