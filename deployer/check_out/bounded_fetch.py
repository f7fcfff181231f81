"""Holds what git fetches to a size on disk."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from deployer.check_out.failures import CheckOutFailed
from deployer.uncut import end_tasks

_LOOK_SECONDS = 0.25

T = TypeVar("T")


async def fetch_within(fetch: Coroutine[Any, Any, T], folder: Path, most_bytes: int) -> T:
    """Wait for a fetch into the folder, and end it once it takes more. Raises `CheckOutFailed`."""
    fetching = asyncio.create_task(fetch)
    try:
        while not fetching.done():
            await asyncio.wait({fetching}, timeout=_LOOK_SECONDS)
            if _size(folder) > most_bytes:
                raise CheckOutFailed(
                    f"What git fetches to look the commit up is larger than {most_bytes // 1024**2} MiB."
                )
        return await fetching
    finally:
        await end_tasks(fetching)


def _size(folder: Path) -> int:
    size = 0
    for path in folder.rglob("*"):
        try:
            size += path.lstat().st_size
        except FileNotFoundError:
            continue
    return size
