"""Command `pharos dead-letters`: list and replay records that could not be stored."""

import argparse
import json
from pathlib import Path
from typing import Any

from operator_cli.credentials import add_data_argument
from operator_cli.errors import CommandFailed
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.times import format_time, from_epoch_ms
from pipeline_contracts.topics import ALL_TOPICS
from wiring.embedded.dead_letters import DeadLetter, list_dead_letters, replay_dead_letters


def register_dead_letters(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "dead-letters",
        help="list or replay records that could not be stored",
        description="Dead letters are accepted records that could not be stored in the column store.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser(
        "list",
        help="list dead letters with their reasons",
        description="List dead letters with their reasons.",
    )
    listing.add_argument("--json", action="store_true", help="print JSON, one a line")
    listing.add_argument("--body", action="store_true", help="with --json: print the body as well")
    listing.set_defaults(run=_list)
    replay = actions.add_parser(
        "replay",
        help="append dead letters to their topic again",
        description="Append dead letters to their topic again, all "
        "or the ones named. A record that still cannot be stored becomes a dead letter again.",
    )
    replay.add_argument("id", nargs="*", type=int, help="IDs as `list` shows them; by default all")
    replay.set_defaults(run=_replay)
    for subcommand in (listing, replay):
        add_data_argument(subcommand)
        subcommand.add_argument(
            "--topic", choices=ALL_TOPICS, default=ALL_TOPICS[0], help="the topic of the records"
        )


def _log_file(data: Path) -> Path:
    path = data / "event-log.sqlite"
    if not path.exists():
        raise CommandFailed(f"{path} is not there. Start `pharos up` first, or name its folder with --data.")
    return path


def _list(arguments: argparse.Namespace) -> int:
    try:
        letters = list_dead_letters(_log_file(arguments.data), arguments.topic)
    except StorageUnavailable as error:
        raise CommandFailed(str(error)) from error
    if arguments.json:
        for letter in letters:
            print(json.dumps(_document(letter, arguments.body)))
        return 0
    if not letters:
        print("No dead letters.")
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table("ID", "Died at", "From", "Bytes", "Reason", box=None, pad_edge=False)
    for letter in letters:
        died = format_time(from_epoch_ms(letter.died_ms))
        table.add_row(
            str(letter.id), died, f"{letter.log}@{letter.offset}", str(len(letter.body)), letter.reason[:200]
        )
    Console().print(table)
    return 0


def _document(letter: DeadLetter, with_body: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "id": letter.id,
        "died_at": format_time(from_epoch_ms(letter.died_ms)),
        "log": letter.log,
        "offset": letter.offset,
        "reason": letter.reason,
    }
    if with_body:
        document["body"] = letter.body.decode(errors="backslashreplace")
    return document


def _replay(arguments: argparse.Namespace) -> int:
    try:
        count = replay_dead_letters(_log_file(arguments.data), arguments.topic, set(arguments.id))
    except StorageUnavailable as error:
        raise CommandFailed(str(error)) from error
    print(f"{count} put into {arguments.topic} again.")
    return 0
