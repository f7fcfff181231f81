"""Checks out a revision: git fetches with Pharos' credentials, and the build's user writes the files.

The build's user has none of Pharos' credentials: a repository names its submodules, and could name private ones that
Pharos may read. Git reads no settings from that user's home: an earlier build may have written filters and attributes
there that change the files of a commit. The settings of the machine (/etc/gitconfig) apply. Known ssh hosts are stored
in the home.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from deployer.checkout.failures import CheckOutFailed
from deployer.checkout.fetch_revision import fetch_revision
from deployer.checkout.inspect_tree import inspect_tree
from deployer.checkout.read_commit import read_fetched_commit
from deployer.checkout.resolve_ref import check_url
from deployer.checkout.run_git import BUILD_SSH_COMMAND, TOLERATED_FSCK_ERRORS, OnLine, open_git, time_limit
from deployer.checkout.submodules import read_submodules
from pipeline_contracts.git_refs import is_commit

AsOwner = Callable[[str], Awaitable[None]]
"""Runs a shell command in a folder, confined and as the build's user. The output goes to the log."""

# Git reads attributes in XDG_CONFIG_HOME or HOME even where GIT_CONFIG_GLOBAL names another file.
_NO_HOME = "GIT_CONFIG_GLOBAL=/dev/null HOME=/nonexistent XDG_CONFIG_HOME=/nonexistent"
_GIT = (
    "LC_ALL=C GIT_TERMINAL_PROMPT=0 GIT_ASKPASS= SSH_ASKPASS= GIT_TEMPLATE_DIR= GIT_ALLOW_PROTOCOL=https:ssh "
    # HOME is in double quotes, so that the shell expands it before the following words set another HOME.
    f'GIT_SSH_COMMAND="{BUILD_SSH_COMMAND}" {_NO_HOME} '
    "git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c gc.auto=0 -c maintenance.auto=false "
    "-c protocol.version=2 -c advice.detachedHead=false"
)
_FSCK_SETTINGS = " ".join(
    f"-c fetch.fsck.{fsck_error}=ignore" for fsck_error in TOLERATED_FSCK_ERRORS.split()
)
_UPDATE = f"{_GIT} -c fetch.fsckObjects=true {_FSCK_SETTINGS} submodule --quiet update --init --recursive --checkout"
# An update does not deepen a shallow submodule, so the submodule is initialized again.
_UPDATE_SUBMODULES = (
    f"{_UPDATE} --depth 1 || {{ "
    "echo 'Not all submodules could be fetched without their history: fetching it, too.' && "
    f"{_GIT} submodule --quiet deinit --all --force && rm -rf .git/modules && {_UPDATE}; }}"
)


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
) -> tuple[str, str] | None:
    """Write the files of a commit and of its submodules into an empty folder, next to a shallow `.git`.

    Return the subject and the author of the commit, or None if it is too large to be read.

    `folder` is an absolute path that belongs to Pharos' user. `revision` is a full commit hash in lower case. `ref` is
    the branch or tag to fetch from hosts that do not serve single commits. `hand_over` gives the folder to the build's
    user before any file of the repository is written. `mark`: see `open_git`.

    Raises `CheckOutFailed`, also for a tree with links that lead out of it, and the errors of `as_owner`, `hand_over`
    and `on_line`. After a failure the content of the folder is undefined.
    """
    if not is_commit(revision):
        raise CheckOutFailed(
            f"{revision!r} is not a full commit hash of 40 or 64 hexadecimal digits. Resolve it first."
        )
    deadline = asyncio.get_running_loop().time() + timeout_seconds
    async with time_limit(
        deadline,
        f"The repository could not be fetched within {timeout_seconds:g} seconds. Check that this machine reaches its "
        "host, and that the revision has no large files that belong elsewhere.",
    ):
        url = check_url(url)
        git = await open_git(url, folder / ".git", mark)
        await on_line(f"Fetching {revision} from {url}")
        await fetch_revision(git, url, revision, ref, on_line)
        commit = await read_fetched_commit(git, revision)
        has_submodules = await read_submodules(git, url, revision)
    async with time_limit(
        deadline,
        f"The revision's files could not be written within {timeout_seconds:g} seconds. Check that the hosts of its "
        "submodules answer, and that it has no large files that belong elsewhere.",
    ):
        await hand_over(folder)
        await _write_tree(revision, has_submodules, as_owner)
        await asyncio.to_thread(inspect_tree, folder)
    return commit


async def _write_tree(revision: str, has_submodules: bool, as_owner: AsOwner) -> None:
    await as_owner(f"{_GIT} -c submodule.recurse=false checkout --quiet --detach {revision}")
    if has_submodules:
        await as_owner(_UPDATE_SUBMODULES)
