"""Commands that consist of actions: `pharos project list|show|…`."""

import argparse
from collections.abc import Callable, Mapping

from operator_cli.ask import add_ask_arguments


def add_actions(
    parser: argparse.ArgumentParser,
    summaries: Mapping[str, str],
    run: Callable[[argparse.Namespace], int],
    add_arguments: Callable[[argparse.ArgumentParser, str], None],
) -> None:
    """The actions of these names, each with `--data` and `--json` and what `add_arguments` gives it; `run` finds the
    name in `arguments.action`."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, summary in summaries.items():
        action = actions.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        add_arguments(action, name)
        add_ask_arguments(action)
        action.set_defaults(run=run, action=name)
