"""Prints what an action gave."""

import argparse
import json
from collections.abc import Callable
from typing import Any

from operator_cli.typed_commands import typed_commands


def tell(arguments: argparse.Namespace, told: Any, show: Callable[[Any], None]) -> int:
    """With `--json` the document; else what `show` prints of it for people, and its `warning`. Gives exit status 0."""
    if arguments.json:
        print(json.dumps(told))
        return 0
    show(told)
    if isinstance(told, dict) and "warning" in told:
        print(typed_commands(told["warning"]))
    return 0
