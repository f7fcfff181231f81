"""A folder of chDB with the schema. Copying it takes milliseconds; applying the schema takes 2 s of CPU.

python -m tests.support.store_template FOLDER   creates such a folder
"""

import asyncio
import functools
import os
import shutil
import sys
import tempfile
from pathlib import Path

from storage_backends.column_store.apply_schema import apply_schema
from storage_backends.column_store.chdb_embedded import open_chdb
from tests.support import fork_server

_ROOT = Path(__file__).parents[2]


def copy_store_template(folder: Path) -> None:
    """Make `folder`, unless it exists, a copy of chDB's folder with the schema and the default retention."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.copytree(_template(), folder, symlinks=True)


@functools.cache
def _template() -> Path:
    folder = Path(tempfile.mkdtemp()) / "clickhouse"
    # A process can have one chDB, which the tests of this process need.
    fork_server.run(
        [sys.executable, "-m", "tests.support.store_template", str(folder)],
        cwd=_ROOT,
        env={k: v for k, v in os.environ.items() if not k.startswith("PHAROS_")},
        check=True,
        timeout=120,
    )
    return folder


async def _create(folder: Path) -> None:
    store = await open_chdb(folder)
    await apply_schema(store)
    await store.close()


if __name__ == "__main__":
    asyncio.run(_create(Path(sys.argv[1])))
