"""Applies the numbered schema files, each once and in order. The table `applied_schema` holds the names of the
applied files.

A file never changes once it is released, because installations that have applied it do not apply it again.
"""

import logging
import re
from collections.abc import Sequence
from pathlib import Path

from storage_backends.column_store.interface import ColumnStore
from storage_backends.column_store.replicated_schema import replicate
from storage_backends.column_store.retention import Retention
from storage_backends.sql_files import read_statements

logger = logging.getLogger(__name__)

_SQL = read_statements(__file__)
_FOLDER = Path(__file__).with_name("schema")
_PARAMETER = re.compile(r"\{(\w+)\}")
_DEFAULT_RETENTION = Retention()


def schema_files() -> Sequence[Path]:
    """Return the paths of the schema files, in the order in which they are applied."""
    return sorted(_FOLDER.glob("[0-9]*.sql"))


def read_schema(path: Path, retention: Retention = _DEFAULT_RETENTION) -> list[str]:
    """Return the statements of a schema file. A statement ends with a semicolon at the end of a line. Comments are
    whole lines. `{name}` stands for the retention of that name."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("--")]
    script = _PARAMETER.sub(lambda match: getattr(retention, match[1]), "\n".join(lines) + "\n")
    return [text for part in script.split(";\n") if (text := part.strip())]


async def apply_schema(
    store: ColumnStore, cluster: str | None = None, retention: Retention = _DEFAULT_RETENTION
) -> list[str]:
    """Bring the store to the newest schema; return the names of the files that were applied now.

    With `cluster`, the tables are replicated and created on all servers of that cluster. `retention` applies to
    tables that this call creates. All statements use IF NOT EXISTS, so a file can be applied again from its start
    after a crash. Raises `StorageUnavailable`.
    """

    async def run(statement: str) -> None:
        await store.command(statement if cluster is None else replicate(statement, cluster))

    for name in ("create_database", "create_applied_schema"):
        await run(_SQL[name])
    applied = {name for (name,) in (await store.query(_SQL["read_applied"])).rows}
    new = []
    for path in schema_files():
        if path.stem in applied:
            continue
        if applied:
            # Updating a filled table may take minutes, and `pharos up` serves nothing until it is done.
            logger.info("column store: applying %s", path.stem)
        for statement in read_schema(path, retention):
            await run(statement)
        await store.command(_SQL["insert_applied"], {"name": path.stem})
        new.append(path.stem)
    return new
