"""Runs `pharos backup`."""

import argparse
import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from control_domain.storage.backups import list_backups
from operator_cli.credentials import DEFAULT_DATA
from operator_cli.durations import format_duration, format_utc_minute
from operator_cli.errors import FAILED, CommandFailed, NoSuchName
from operator_cli.local.operator_socket import NothingRuns, stream_from_socket
from operator_cli.messages import format_command, print_result
from operator_cli.settings import load_settings
from operator_cli.terminal_text import sanitize
from pipeline_contracts.settings import Settings
from wiring.embedded.backups.errors import BackupFailed

_OnProgress = Callable[[str, int, int], None]


def run_create(arguments: argparse.Namespace) -> int:
    """Have the running platform make a backup, or make it without one."""
    settings = load_settings()
    if settings.database_url is not None:
        raise CommandFailed(
            "PHAROS_DATABASE_URL is set: this installation has servers, which have backups of their own. Stop the "
            "consumers, run pg_dump, BACKUP DATABASE pharos of ClickHouse, and copy Kafka's disks: "
            "docs/operations/backups.md has the commands and their "
            "order. For a `pharos up` on this machine, unset the variable."
        )
    data: Path = arguments.data
    with _progress(arguments) as on_progress:
        try:
            made = _create_on_running(arguments, on_progress)
        except NothingRuns:
            if not (data / "control.sqlite").exists():
                raise CommandFailed(
                    f"{data} is not a data folder of `pharos up`: it has no control.sqlite. Name it with --data."
                ) from None
            made = _create_offline(arguments, settings, on_progress)
    for warning in made["warnings"]:
        print(f"pharos: {sanitize(warning)}", file=sys.stderr)
    return print_result(arguments, made, _show_created, quiet="name")


def _create_on_running(arguments: argparse.Namespace, on_progress: _OnProgress) -> dict[str, Any]:
    folder = None if arguments.folder is None else str(arguments.folder.absolute())
    body = msgspec.json.encode({"folder": folder, "with_keys": not arguments.without_keys})
    for line in stream_from_socket(arguments.data, "/backups", body):
        if (progress := line.get("progress")) is not None:
            on_progress(progress["step"], progress["done"], progress["total"])
        elif "error" in line:
            raise CommandFailed(line["error"])
        else:
            made: dict[str, Any] = line["data"]
            return made
    raise CommandFailed(f"The `pharos up` on {arguments.data} ended before the backup was complete.")


def _create_offline(
    arguments: argparse.Namespace, settings: Settings, on_progress: _OnProgress
) -> dict[str, Any]:
    # Imported here: a running platform has the engines open.
    from pipeline_contracts.errors import StorageUnavailable
    from wiring.embedded.backups.create import make_request
    from wiring.embedded.backups.offline import create_offline
    from wiring.embedded.data_folder import DataFolderInUse, DataFolderUnusable

    request = make_request(
        settings,
        arguments.data,
        "command",
        arguments.folder,
        with_keys=not arguments.without_keys,
        on_progress=on_progress,
    )
    try:
        return asyncio.run(create_offline(arguments.data, settings, request))
    except (BackupFailed, DataFolderInUse, DataFolderUnusable, StorageUnavailable) as error:
        raise CommandFailed(str(error)) from error


def _show_created(made: dict[str, Any]) -> None:
    records = sum(made["counts"]["event_log"].values())
    rows = sum(table["rows"] for table in made["counts"]["column_store"].values())
    print(
        f"Backup {made['name']}: {_format_bytes(made['bytes'])} in {format_duration(made['seconds'])}, "
        f"{rows:,} rows and {records:,} records that are not stored yet.\n{made['path']}\n"
        f"Test that it can be restored: {format_command(['backup', 'verify', made['path']])}"
    )


def run_list(arguments: argparse.Namespace) -> int:
    """Show the backups in a folder."""
    return print_result(
        arguments,
        list_backups(_find_folder(arguments)),
        lambda backups: _show_list(arguments, backups),
        quiet="name",
    )


def _show_list(arguments: argparse.Namespace, backups: list[dict[str, Any]]) -> None:
    from operator_cli.tables import Column, print_table

    print_table(
        arguments,
        [
            Column("Name", wraps=False),
            Column("Size", is_number=True),
            Column("Took", wraps=False),
            Column("Made by"),
            Column("Keys", wraps=False),
            Column("Restore test"),
        ],
        [
            (
                backup["name"],
                _format_bytes(backup["bytes"]),
                format_duration(backup["seconds"]),
                backup["source"],
                "yes" if backup["has_keys"] else "no",
                _describe_test(backup["restore_test"]),
            )
            for backup in backups
        ],
        empty=f"No backups in {_find_folder(arguments)}. `pharos backup create` makes one.",
    )


def _describe_test(test: dict[str, Any] | None) -> str:
    if test is None:
        return "never"
    return f"{'passed' if test['passed'] else 'FAILED'} {format_utc_minute(test['at'])}"


def run_verify(arguments: argparse.Namespace) -> int:
    """Test a backup."""
    from wiring.embedded.backups.verify import verify_backup

    backup = _find_backup(arguments)
    with _progress(arguments) as on_progress:
        try:
            result = asyncio.run(
                verify_backup(backup, reserve_bytes=load_settings().min_free_bytes, on_progress=on_progress)
            )
        except BackupFailed as error:
            raise CommandFailed(str(error)) from error
    print_result(arguments, result, _show_verified, quiet="name")
    return 0 if result["passed"] else FAILED


def _show_verified(result: dict[str, Any]) -> None:
    if result["passed"]:
        took = format_duration(result["seconds"])
        print(f"Backup {result['name']} was restored and compared in {took}: it is complete.")
        return
    print(f"Backup {result['name']} did not pass:")
    for problem in result["problems"]:
        print(f"- {sanitize(problem)}")


def run_restore(arguments: argparse.Namespace) -> int:
    """Restore a backup into a new data folder."""
    from wiring.embedded.backups.restore import restore_backup

    backup = _find_backup(arguments)
    with _progress(arguments) as on_progress:
        try:
            restored = restore_backup(
                backup,
                arguments.data,
                reserve_bytes=load_settings().min_free_bytes,
                on_progress=on_progress,
            )
        except BackupFailed as error:
            raise CommandFailed(str(error)) from error
    for name in restored["missing_keys"]:
        print(
            f"pharos: {name} is not in the backup. Put it into {arguments.data} before the first start (or set the "
            f"PHAROS_{name.partition('.')[0].upper()}_KEY that was set): the first start would make a new one.",
            file=sys.stderr,
        )
    return print_result(arguments, restored, _show_restored, quiet="name")


def _show_restored(restored: dict[str, Any]) -> None:
    print(
        f"Restored {restored['name']}, the installation as of {restored['created_at']}, into {restored['data']}.\n"
        f"Start it: {format_command(['up', '--data', restored['data']])}"
    )


def _find_folder(arguments: argparse.Namespace) -> Path:
    if arguments.folder is not None:
        return Path(arguments.folder)
    if setting := load_settings().backup_folder:
        return Path(setting)
    return (DEFAULT_DATA if arguments.verb == "restore" else Path(arguments.data)) / "backups"


def _find_backup(arguments: argparse.Namespace) -> Path:
    """Return the folder of the named backup. Raises `NoSuchName`."""
    named = Path(arguments.name)
    for path in (_find_folder(arguments) / arguments.name, named):
        if path.is_dir():
            return path.absolute()
    raise NoSuchName(
        f"There is no backup {arguments.name} in {_find_folder(arguments)}. `pharos backup list` shows them."
    )


@contextmanager
def _progress(arguments: argparse.Namespace) -> Iterator[_OnProgress]:
    """Show a bar on the standard error of a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    hidden = arguments.json or arguments.quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task("Backup", total=None)
        yield lambda step, done, total: progress.update(
            task, description=step, completed=done, total=total or None
        )


def _format_bytes(size: int) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1024  # type: ignore[assignment]
    return f"{size:.1f} TiB"
