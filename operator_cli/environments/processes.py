"""Command `pharos ps`, and the output of processes for `pharos logs ENVIRONMENT`."""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from operator_cli.api.client import Api, open_api
from operator_cli.api.default_environment import Effect
from operator_cli.api.event_stream import Event
from operator_cli.api.names import Environment, list_environments, resolve_environment
from operator_cli.api.problems import ApiRefused
from operator_cli.arguments import add_client_arguments, add_optional_environment_argument
from operator_cli.errors import CommandFailed
from operator_cli.messages import print_result, qualify_commands
from operator_cli.terminal_text import sanitize

_MAX_LINE_LENGTH = 20_000
_COUNTED_INCIDENTS = 100
_COLOURS = ("cyan", "green", "magenta", "blue", "yellow")

Output = Mapping[str, Any]
"""Lines of one process in the form of the API."""


def register_ps(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "ps",
        help="show which releases and processes run",
        description="Environments that have a live release, a deployment in progress or running processes: the "
        "address, the live release, the processes in the last report of their deployer, and the "
        "number of open incidents.",
    )
    add_optional_environment_argument(
        parser, "the environment: production, shop/production or an ID; by default all that run something"
    )
    add_client_arguments(parser)
    parser.set_defaults(run=_run_ps)


def _run_ps(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    found = [(environment.path, _read_processes(api, environment)) for environment in _choose(api, arguments)]
    # An environment that was named is always shown.
    shown = [
        (path, document)
        for path, document in found
        if document is not None and (arguments.environment is not None or _runs_something(document))
    ]
    return print_result(
        arguments,
        [document for _, document in shown],
        lambda _: _show_processes(arguments, api, shown),
        quiet="environment.id",
    )


def _choose(api: Api, arguments: argparse.Namespace) -> list[Environment]:
    if arguments.environment is None:
        return list_environments(api)
    return [resolve_environment(api, arguments.environment, option="", effect=Effect.READS)]


def _read_processes(api: Api, environment: Environment) -> dict[str, Any] | None:
    """Return the processes of the environment; None if it was removed meanwhile, as often happens to previews."""
    try:
        document: dict[str, Any] = api.get("environments", environment.id, "processes")
    except ApiRefused as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise
    return document


def _runs_something(document: Mapping[str, Any]) -> bool:
    return bool(document["live"] or document["active_deployment"] or document["instances"])


def _show_processes(arguments: argparse.Namespace, api: Api, shown: list[tuple[str, dict[str, Any]]]) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.environments.runtime_tables import show_runtime

    show_runtime(arguments, shown)
    count = _count_open_incidents(api)
    if count:
        number = f"{count}" if count < _COUNTED_INCIDENTS else f"{count} or more"
        print(qualify_commands(f"\nOpen incidents: {number}. `pharos incidents` lists them."))


def _count_open_incidents(api: Api) -> int:
    """Return the number of open incidents; 0 if they cannot be read, for example without the scope."""
    try:
        return len(api.get_all("incidents", query={"state": "firing"}, limit=_COUNTED_INCIDENTS))
    except CommandFailed:
        return 0


def show_process_output(api: Api, arguments: argparse.Namespace, environment: Environment, lines: int) -> int:
    """Print the last `lines` of each process, with `--follow` also new ones. Return exit status 0."""
    path = ("environments", environment.id, "processes", "output")
    if arguments.follow:
        _follow(OutputScreen(as_json=arguments.json), api.stream(*path, query={"tail": lines}))
        return 0
    document = api.get(*path, query={"tail": lines})
    if arguments.json:
        print(json.dumps(document))
    else:
        _show_once(environment, document["outputs"])
    return 0


def _show_once(environment: Environment, outputs: list[dict[str, Any]]) -> None:
    screen = OutputScreen(as_json=False)
    for output in outputs:
        # Without --follow, also show an unfinished last line.
        unfinished = [output["unfinished"]] if output["unfinished"] else []
        screen.show({**output, "lines": [*output["lines"], *unfinished]})
    if not any(output["lines"] or output["unfinished"] for output in outputs):
        print(f"The processes of {environment.path} have printed nothing.", file=sys.stderr)


def _follow(screen: "OutputScreen", events: Iterable[Event]) -> None:
    """Print the lines of an event stream.

    After a broken connection the stream continues after the last position, so later lines are sent again. Lines are
    therefore held back until their position has arrived.
    """
    held: list[Output] = []
    is_first = True
    for event in events:
        if event.name == "output":
            held.append(event.data)
        elif event.name == "position":
            for output in held:
                # The stream begins with the last lines of longer output, so do not report a gap there.
                is_gap = output["truncated"] and not is_first
                screen.show(output, is_gap=is_gap)
            held, is_first = [], False


class OutputScreen:
    """Prints the output of several processes, each line after the name of its process, sanitized for a terminal."""

    def __init__(self, *, as_json: bool) -> None:
        from rich.console import Console

        self._as_json = as_json
        self._console = Console(highlight=False, soft_wrap=True)
        self._colours: dict[str, str] = {}

    def show(self, output: Output, *, is_gap: bool = False) -> None:
        """Print the lines of one process. `is_gap`: earlier lines were removed before they were read."""
        name = f"{output['process']}.{output['number']}"
        if is_gap and not self._as_json:
            self._print(name, "(cut here, as it had become long: lines may be missing)")
        for line in output["lines"]:
            if self._as_json:
                print(json.dumps({"process": output["process"], "number": output["number"], "text": line}))
            else:
                self._print(name, line.removesuffix("\r"))
        sys.stdout.flush()

    def _print(self, name: str, line: str) -> None:
        text = sanitize(line, max_length=_MAX_LINE_LENGTH)
        if not self._console.is_terminal:
            print(f"{name} | {text}")
            return
        from rich.text import Text

        colour = self._colours.setdefault(name, _COLOURS[len(self._colours) % len(_COLOURS)])
        self._console.print(Text(f"{name} | ", style=colour).append(text, style="default"))
