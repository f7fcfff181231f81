"""Prints what the processes of an environment print, each line with its process before it."""

import argparse
import asyncio
import json
import sys
from typing import Any

from operator_cli.ask import Ask, asking
from operator_cli.failure import NotReached
from operator_cli.plain_text import plain
from operator_cli.still_waiting import StillWaiting

_POLL_SECONDS = 0.4
# As much as half of what is read of a file at once: there may be more.
_MUCH = 128 * 1024
_LONGEST_LINE = 20_000
_COLOURS = ("cyan", "green", "magenta", "blue", "yellow")

Output = dict[str, Any]


def show_output(arguments: argparse.Namespace, called: str, lines: int) -> int:
    """The last `lines` of each process; with `--follow` all that come."""
    asyncio.run(_show_output(arguments, called, lines))
    return 0


async def _show_output(arguments: argparse.Namespace, called: str, lines: int) -> None:
    async with asking(arguments) as ask_again:
        told = await ask_again("runtime/output", {"environment_id": called})
        for output in told["outputs"]:
            output["text"] = _last(output["text"], lines)
        if arguments.follow:
            await _follow(ask_again, OutputScreen(as_json=arguments.json), called, told["outputs"])
        elif arguments.json:
            print(json.dumps(told))
        else:
            _show_once(told)


def _show_once(told: dict[str, Any]) -> None:
    screen = OutputScreen(as_json=False)
    for output in told["outputs"]:
        # Nobody waits for the end of the last line.
        screen.show({**output, "text": output["text"] + output["rest"]})
    if not any(output["text"] or output["rest"] for output in told["outputs"]):
        print(f"The processes of {told['environment']} have printed nothing.", file=sys.stderr)


async def _follow(ask_again: Ask, screen: "OutputScreen", called: str, outputs: list[Output]) -> None:
    offsets: dict[str, int] = {}
    waiting = StillWaiting()
    while True:
        for output in outputs:
            screen.show(output)
        offsets |= {output["key"]: output["offset"] for output in outputs}
        if not any(len(output["text"]) > _MUCH for output in outputs):
            await asyncio.sleep(_POLL_SECONDS)
        wanted = {"environment_id": called, "offsets": offsets}
        try:
            outputs = (await ask_again("runtime/output", wanted))["outputs"]
            waiting.end()
        except NotReached as failure:
            waiting.tell(failure)
            outputs = []


def _last(text: str, lines: int) -> str:
    """The last whole lines of the text."""
    return "".join(f"{line}\n" for line in text.split("\n")[-lines - 1 : -1])


class OutputScreen:
    """Takes what was read of one process after another; nothing of it acts on a terminal."""

    def __init__(self, *, as_json: bool) -> None:
        from rich.console import Console

        self._as_json = as_json
        self._console = Console(highlight=False, soft_wrap=True)
        self._colours: dict[str, str] = {}

    def show(self, output: Output) -> None:
        """Its lines."""
        if output["cut"] and not self._as_json:
            self._print(output["name"], "(cut here, as it had become long: lines may be missing)")
        for line in output["text"].removesuffix("\n").split("\n") if output["text"] else ():
            if self._as_json:
                print(json.dumps({"process": output["process"], "number": output["number"], "text": line}))
            else:
                self._print(output["name"], line.removesuffix("\r"))
        sys.stdout.flush()

    def _print(self, name: str, line: str) -> None:
        text = plain(line, most=_LONGEST_LINE)
        if not self._console.is_terminal:
            print(f"{name} | {text}")
            return
        from rich.text import Text

        colour = self._colours.setdefault(name, _COLOURS[len(self._colours) % len(_COLOURS)])
        self._console.print(Text(f"{name} | ", style=colour).append(text, style="default"))
