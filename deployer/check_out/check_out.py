"""One revision of a repository into a folder: fetched with Pharos' credentials, written by the user that builds."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from deployer.check_out.failures import CheckOutFailed
from deployer.check_out.fetch_revision import fetch_revision
from deployer.check_out.inspect_tree import inspect_tree
from deployer.check_out.resolve_ref import check_url
from deployer.check_out.run_git import OnLine, open_git, until
from deployer.check_out.submodules import read_submodules
from deployer.check_out.write_tree import AsOwner, write_tree
from pipeline_contracts.git_refs import is_commit


async def check_out(
    url: str,
    revision: str,
    ref: str | None,
    folder: Path,
    *,
    as_owner: AsOwner,
    hand_over: Callable[[Path], Awaitable[None]],
    on_line: OnLine,
    mark: str | None = None,
    timeout_seconds: float = 600,
) -> None:
    """Write the files of a commit, and of its submodules, into an empty folder, beside a shallow `.git`.

    `folder` is an absolute path of Pharos' own user.
    `revision` is a whole commit, in small letters; `ref` is where it came from, for hosts that give no single commit.
    `hand_over` makes all in the folder the build's user's, before anything of the repository is written there. `mark`:
    see `open_git`.
    Raises `CheckOutFailed`, also where the tree could lead out of itself; what `as_owner`, `hand_over` and
    `on_line` raise passes through. After a failure the folder is of no use.
    """
    if not is_commit(revision):
        raise CheckOutFailed(
            f"{revision!r} is no whole commit of 40 or 64 hexadecimal digits. Resolve it first."
        )
    deadline = asyncio.get_running_loop().time() + timeout_seconds
    async with until(
        deadline,
        f"The repository could not be fetched within {timeout_seconds:g} seconds. Check that this machine reaches its "
        "host, and whether the revision holds files that belong elsewhere.",
    ):
        url = check_url(url)
        git = await open_git(url, folder / ".git", mark)
        await on_line(f"Fetching {revision} from {url}")
        await fetch_revision(git, url, revision, ref, on_line)
        has_submodules = await read_submodules(git, url, revision)
    async with until(
        deadline,
        f"The revision's files could not be written within {timeout_seconds:g} seconds. Check whether the hosts of its "
        "submodules answer, and whether it holds files that belong elsewhere.",
    ):
        await hand_over(folder)
        await write_tree(revision, has_submodules, as_owner)
        await asyncio.to_thread(inspect_tree, folder)
