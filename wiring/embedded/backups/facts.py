"""Counts rows, records and parts, when a backup is made and again when it is restored."""

from collections.abc import Mapping
from pathlib import Path

from storage_backends.sqlite_snapshot import SqliteSnapshot


def count_rows(control: SqliteSnapshot) -> dict[str, int]:
    """Return the number of rows of each table of the control database."""
    names = control.rows(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
    )
    return {name: control.rows(f'SELECT count(*) FROM "{name}"')[0][0] for (name,) in names}


def count_records(log: SqliteSnapshot) -> dict[str, int]:
    """Return the number of records in the log of each topic."""
    return dict(log.rows("SELECT topic, sum(past_last - first) FROM frames GROUP BY topic ORDER BY topic"))


def count_frozen(store: Path, frozen: Path) -> dict[str, dict[str, int]]:
    """Return the numbers of frozen or extracted parts and of their rows, by the name of the table."""
    counts: dict[str, dict[str, int]] = {}
    for name, folder in find_tables(store).items():
        parts = list_parts(frozen / folder)
        counts[name] = {"parts": len(parts), "rows": sum(parts.values())}
    return counts


def find_tables(store: Path) -> Mapping[str, Path]:
    """Return the folders of the tables of the database `pharos`, relative to the store's, by name."""
    links = sorted((store / "data" / "pharos").iterdir())
    return {link.name: Path("store", *link.readlink().parts[-2:]) for link in links if link.is_symlink()}


def list_parts(table: Path) -> dict[str, int]:
    """Return the number of rows of each part in a table's folder."""
    if not table.is_dir():
        return {}
    return {path.parent.name: int(path.read_text()) for path in sorted(table.glob("*/count.txt"))}
