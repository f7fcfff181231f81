"""Command `pharos ps`, and the output of processes for `pharos logs ENVIRONMENT`."""

import argparse
import asyncio
import json
import sys
from typing import Any

from operator_cli.arguments import add_optional_environment_argument
from operator_cli.control_client import (
    WHICH_INSTALLATION,
    RequestAction,
    add_data_and_json_arguments,
    open_client,
    request_action,
)
from operator_cli.errors import InstallationUnreachable
from operator_cli.messages import OutageNotice, print_result
from operator_cli.terminal_text import sanitize

_POLL_SECONDS = 0.4
# Half of what one request reads of a file: with more than this, more may be waiting.
_LARGE_OUTPUT = 128 * 1024
_MAX_LINE_LENGTH = 20_000
_COLOURS = ("cyan", "green", "magenta", "blue", "yellow")

Output = dict[str, Any]


def register_ps(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "ps",
        help="show what runs",
        description="Environments that have a live release or running processes: the address, the live release, and "
        f"the processes as their deployer last saw them. {WHICH_INSTALLATION}",
    )
    add_optional_environment_argument(
        parser, "show this one only: env_…, its number, its slug, or PROJECT/SLUG"
    )
    add_data_and_json_arguments(parser)
    parser.set_defaults(run=_run_ps)


def _run_ps(arguments: argparse.Namespace) -> int:
    return print_result(
        arguments,
        request_action(arguments, "runtime/list", {"environment_id": arguments.environment}),
        _show_processes,
    )


def _show_processes(environments: list[dict[str, Any]]) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.environments.runtime_tables import show_runtime

    show_runtime(environments)


def show_process_output(arguments: argparse.Namespace, environment_path: str, lines: int) -> int:
    """Print the last `lines` of each process, with `--follow` also new ones. Return exit status 0."""
    asyncio.run(_show_output(arguments, environment_path, lines))
    return 0


async def _show_output(arguments: argparse.Namespace, environment_path: str, lines: int) -> None:
    async with open_client(arguments) as request:
        result = await request("runtime/output", {"environment_id": environment_path})
        for output in result["outputs"]:
            output["text"] = _last_lines(output["text"], lines)
        if arguments.follow:
            await _follow(request, OutputScreen(as_json=arguments.json), environment_path, result["outputs"])
        elif arguments.json:
            print(json.dumps(result))
        else:
            _show_once(result)


def _show_once(result: dict[str, Any]) -> None:
    screen = OutputScreen(as_json=False)
    for output in result["outputs"]:
        # Without --follow an unfinished last line is shown as it is.
        screen.show({**output, "text": output["text"] + output["rest"]})
    if not any(output["text"] or output["rest"] for output in result["outputs"]):
        print(f"The processes of {result['environment']} have printed nothing.", file=sys.stderr)


async def _follow(
    request: RequestAction, screen: "OutputScreen", environment_path: str, outputs: list[Output]
) -> None:
    offsets: dict[str, int] = {}
    outage = OutageNotice()
    while True:
        for output in outputs:
            screen.show(output)
        offsets |= {output["key"]: output["offset"] for output in outputs}
        if not any(len(output["text"]) > _LARGE_OUTPUT for output in outputs):
            await asyncio.sleep(_POLL_SECONDS)
        params = {"environment_id": environment_path, "offsets": offsets}
        try:
            outputs = (await request("runtime/output", params))["outputs"]
            outage.end()
        except InstallationUnreachable as error:
            outage.report(error)
            outputs = []


def _last_lines(text: str, lines: int) -> str:
    """Return the last finished lines of the text."""
    return "".join(f"{line}\n" for line in text.split("\n")[-lines - 1 : -1])


class OutputScreen:
    """Prints the output of several processes, each line after the name of its process, sanitized for a terminal."""

    def __init__(self, *, as_json: bool) -> None:
        from rich.console import Console

        self._as_json = as_json
        self._console = Console(highlight=False, soft_wrap=True)
        self._colours: dict[str, str] = {}

    def show(self, output: Output) -> None:
        """Print the lines of one process."""
        if output["cut"] and not self._as_json:
            self._print(output["name"], "(cut here, as it had become long: lines may be missing)")
        for line in output["text"].removesuffix("\n").split("\n") if output["text"] else ():
            if self._as_json:
                print(json.dumps({"process": output["process"], "number": output["number"], "text": line}))
            else:
                self._print(output["name"], line.removesuffix("\r"))
        sys.stdout.flush()

    def _print(self, name: str, line: str) -> None:
        text = sanitize(line, max_length=_MAX_LINE_LENGTH)
        if not self._console.is_terminal:
            print(f"{name} | {text}")
            return
        from rich.text import Text

        colour = self._colours.setdefault(name, _COLOURS[len(self._colours) % len(_COLOURS)])
        self._console.print(Text(f"{name} | ", style=colour).append(text, style="default"))
