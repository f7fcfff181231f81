"""Fetches commits without their files, to look at their messages and their order."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from deployer.checkout.bounded_fetch import fetch_within, temporary_folder
from deployer.checkout.resolve_ref import check_url, object_format_option
from deployer.checkout.run_git import Git, open_git, time_limit


@asynccontextmanager
async def fetched_commits(
    url: str,
    *revisions: str,
    depth: int,
    timeout_seconds: float,
    most_bytes: int,
    mark: str | None = None,
) -> AsyncIterator[Git]:
    """Yield a `Git` without network access, on a temporary repository that has the commits of `url` and `depth
    - 1` commits before each.

    `mark`: see `open_git`. Raises `CheckOutFailed`, also if the fetch takes more than `most_bytes` on disk, or
    if the fetch and the block together take longer than `timeout_seconds`.
    """
    deadline = asyncio.get_running_loop().time() + timeout_seconds
    async with (
        temporary_folder("pharos-commit-") as folder,
        time_limit(deadline, f"The commit could not be fetched within {timeout_seconds:g} seconds."),
    ):
        git = await open_git(url := check_url(url), folder / "git", mark, is_limited=True)
        await git.run_checked(
            "init", "--quiet", "--bare", "--template=", object_format_option(len(revisions[0]))
        )
        await git.run_checked("config", "remote.origin.url", url)
        fetch = git.run_checked(
            "-c",
            "fetch.unpackLimit=1",
            "fetch",
            "--quiet",
            "--no-tags",
            f"--depth={depth}",
            "--filter=tree:0",
            "origin",
            *revisions,
        )
        await fetch_within(fetch, folder, most_bytes)
        yield git.offline()
