"""Numbered schema files, applied once each and in order; what was applied is written down in the store."""

import logging
from pathlib import Path

from storage_backends.column_store.interface import ColumnStore
from storage_backends.column_store.replicated_schema import replicated

logger = logging.getLogger(__name__)

_FOLDER = Path(__file__).with_name("schema")
_FIRST = (
    "CREATE DATABASE IF NOT EXISTS pharos",
    "CREATE TABLE IF NOT EXISTS pharos.applied_schema (name String, applied_at DateTime DEFAULT now()) "
    "ENGINE = MergeTree ORDER BY name",
)


def _statements(script: str) -> list[str]:
    """The statements of a file. They end with a semicolon at the end of a line; comments are whole lines."""
    lines = [line for line in script.splitlines() if not line.lstrip().startswith("--")]
    return [text for part in "\n".join(lines).split(";\n") if (text := part.strip().removesuffix(";"))]


async def apply_schema(store: ColumnStore, cluster: str | None = None) -> list[str]:
    """Bring the store to the newest schema; gives the names of the files that were applied now.

    With `cluster` the tables are made on all of its servers, replicated. Statements say IF NOT EXISTS: a file that
    was cut short by a crash is carried out again from its start. Raises `StorageUnavailable`.
    """

    async def run(statement: str) -> None:
        await store.command(statement if cluster is None else replicated(statement, cluster))

    for statement in _FIRST:
        await run(statement)
    applied = {name for (name,) in (await store.query("SELECT name FROM pharos.applied_schema")).rows}
    new = []
    for path in sorted(_FOLDER.glob("[0-9]*.sql")):
        if path.stem in applied:
            continue
        if applied:
            # An update of what is there may take minutes, and `pharos up` answers nobody meanwhile.
            logger.info("column store: applying %s", path.stem)
        for statement in _statements(path.read_text() + "\n"):
            await run(statement)
        # The name is a file's of this package.
        await store.command(f"INSERT INTO pharos.applied_schema (name) VALUES ('{path.stem}')")
        new.append(path.stem)
    return new
