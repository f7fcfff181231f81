"""Prints the newest log records, and those that come in."""

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from operator_cli.ask import asking
from operator_cli.failure import NotReached
from operator_cli.reading_arguments import nothing_found
from operator_cli.still_waiting import StillWaiting
from operator_cli.typed_commands import typed_commands

# OpenTelemetry's least numbers.
SEVERITIES = {"debug": 5, "info": 9, "warning": 13, "error": 17, "critical": 21}
_COLOURS = ((21, "bold red"), (17, "red"), (13, "yellow"), (9, ""), (0, "dim"))
_MOST = 1000
_POLL_SECONDS = 1.0
# A record bears the time of its sender, who may keep it back for a while and send it with others.
_LOOK_BACK_SECONDS = 60

Record = dict[str, Any]


def show_records(arguments: argparse.Namespace, lines: int) -> int:
    """The newest of the time that is asked for; with `--follow` those that come in as well."""
    asyncio.run(_show_records(arguments, lines))
    return 0


async def _show_records(arguments: argparse.Namespace, lines: int) -> None:
    async with asking(arguments) as ask_again:
        wanted = _wanted(arguments, lines)
        records = (await ask_again("logs/list", wanted))[::-1]
        if not arguments.follow:
            _show_once(arguments, records)
            return
        _show(records, as_json=arguments.json)
        unshown = UnshownRecords(records, is_full=len(records) == lines)
        wanted |= {"since_seconds": _LOOK_BACK_SECONDS, "limit": _MOST}
        waiting = StillWaiting()
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            try:
                records = (await ask_again("logs/list", wanted))[::-1]
            except NotReached as failure:
                waiting.tell(failure)
                continue
            waiting.end()
            new = unshown.take(records)
            if len(new) == _MOST:
                print(
                    typed_commands("pharos: more came in than can be shown; `pharos query` has all."),
                    file=sys.stderr,
                )
            _show(new, as_json=arguments.json)


def _wanted(arguments: argparse.Namespace, lines: int) -> dict[str, Any]:
    return {
        "environment_id": arguments.environment,
        "since_seconds": arguments.since,
        "service": arguments.service,
        "trace_id": arguments.trace,
        "search": arguments.search,
        "least_severity": SEVERITIES.get(arguments.severity or "", 0),
        "limit": lines,
    }


class UnshownRecords:
    """Tells which records of overlapping answers, oldest first, are new. Two may be alike in everything."""

    def __init__(self, shown: Sequence[Record], *, is_full: bool) -> None:
        self._seen = Counter(map(_key, shown))
        # What came before the first that is shown was not asked for.
        self._from = shown[0]["at"] if is_full else ""

    def take(self, records: Sequence[Record]) -> list[Record]:
        """Those that were not given before."""
        left, new = self._seen.copy(), []
        for record in records:
            key = _key(record)
            if left[key]:
                left[key] -= 1
            elif record["at"] >= self._from:
                new.append(record)
        # What has left the time that is looked at does not come back.
        self._seen = Counter(map(_key, records))
        return new


def _key(record: Record) -> str:
    return json.dumps(record, sort_keys=True)


def _show_once(arguments: argparse.Namespace, records: Sequence[Record]) -> None:
    if arguments.json:
        print(json.dumps(records[::-1]))
    elif not records:
        print(nothing_found("log records", arguments))
    else:
        _show(records, as_json=False)


def _show(records: Sequence[Record], *, as_json: bool) -> None:
    """Oldest first."""
    if as_json:
        sys.stdout.write("".join(json.dumps(record) + "\n" for record in records))
        sys.stdout.flush()
        return
    from rich.console import Console
    from rich.text import Text

    from operator_cli.plain_text import plain

    console = Console(highlight=False, soft_wrap=True)
    for record in records:
        style = next(style for least, style in _COLOURS if record["severity_number"] >= least)
        at = f"{record['at'][:10]} {record['at'][11:23]}"
        severity = plain(record["severity"], most=8)
        line = Text(f"{at}  {severity:<8}  ", style=style)
        parts = [plain(record["service"], most=40), plain(record["text"], most=2000)]
        console.print(line.append("  ".join(part for part in parts if part)))
