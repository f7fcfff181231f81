"""Fetches into temporary repositories of bounded size. Threads walk and remove the folders."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from deployer.checkout.failures import CheckOutFailed
from deployer.shield import end_tasks, shield

_POLL_SECONDS = 0.25
# A repository without a work tree that was just fetched has fewer than 20 files.
_MAX_FILES = 1000

T = TypeVar("T")


@asynccontextmanager
async def temporary_folder(prefix: str) -> AsyncIterator[Path]:
    """Yield a new folder. Remove it at the end, also on cancellation."""
    folder = tempfile.mkdtemp(prefix=prefix, dir=_find_parent())
    try:
        yield Path(folder)
    finally:
        await shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))


def _find_parent() -> str:
    # Git runs in another folder, where a relative path would name a different folder.
    return os.path.abspath(tempfile.gettempdir())


async def fetch_within(fetch: Coroutine[Any, Any, T], folder: Path, most_bytes: int) -> T:
    """Wait for a fetch into the folder. Stop the fetch and raise `CheckOutFailed` if the folder exceeds the limit."""
    fetching = asyncio.create_task(fetch)
    try:
        is_done = False
        while not is_done:
            await asyncio.wait({fetching}, timeout=_POLL_SECONDS)
            is_done = fetching.done()
            await asyncio.to_thread(_check_size, folder, most_bytes)
        return await fetching
    finally:
        await end_tasks(fetching)


def _check_size(folder: Path, most_bytes: int) -> None:
    """Raise `CheckOutFailed` for a folder with too many bytes or files, without counting the remaining files."""
    size = files = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                size += os.lstat(os.path.join(path, name)).st_size
            except FileNotFoundError:
                continue
            files += 1
            if size > most_bytes:
                raise CheckOutFailed(
                    f"The data that git fetches to look up the commit is larger than {most_bytes // 1024**2} MiB."
                )
            if files > _MAX_FILES:
                raise CheckOutFailed(
                    f"The data that git fetches to look up the commit has more than {_MAX_FILES} files."
                )
