"""Which commit a branch, a tag or a beginning of a commit is."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from control_domain.refusals import Refused
from control_domain.repositories.read_url import read_url
from deployer.check_out.bounded_fetch import fetch_within, temporary_folder
from deployer.check_out.failures import CheckOutFailed, explain_failure, missing_ref
from deployer.check_out.run_git import Git, open_git, until
from pipeline_contracts.git_refs import is_commit, is_ref

# Git looks for no fewer than four digits; under seven they are hardly ever a single commit's.
_BEGINNING = re.compile("[0-9a-f]{7,63}")
_NOWHERE = Path("/dev/null")


async def resolve_ref(
    url: str,
    ref: str,
    *,
    mark: str | None = None,
    timeout_seconds: float = 60,
    most_bytes: int | None = None,
) -> str:
    """The commit, 40 or 64 hexadecimal digits in small letters, that `ref` is in the repository at `url` now.

    `ref` is a branch, a tag (the commit that it is of), a full name as refs/pull/7/head, HEAD, or a commit, of which
    the first seven digits are enough. A branch goes before a tag of its name, and a name before a commit's beginning;
    a whole commit is given back without a look at the repository. `mark`: see `open_git`. `most_bytes`:
    for a look-up that nobody waits for, which takes no more on disk, and little memory. Raises `CheckOutFailed`.
    """
    if is_commit(ref.lower()):
        return ref.lower()
    if not is_ref(ref):
        raise CheckOutFailed(f"{ref!r} is no name of a branch or tag that Git allows; one is main.")
    deadline = asyncio.get_running_loop().time() + timeout_seconds
    async with until(
        deadline,
        f"The repository's host did not answer within {timeout_seconds:g} seconds. Check the repository's address, "
        "and that this machine reaches its host.",
    ):
        git = await open_git(url := check_url(url), _NOWHERE, mark, is_limited=most_bytes is not None)
        found = await list_refs(git, url, ref)
        if (chosen := choose_ref(found, ref)) is not None:
            return found[f"{chosen}^{{}}"] if f"{chosen}^{{}}" in found else found[chosen]
        if _BEGINNING.fullmatch(beginning := ref.lower()):
            return await _find_commit(git, url, beginning, most_bytes)
    raise missing_ref(ref)


def check_url(url: str) -> str:
    """The address as git takes it. Raises `CheckOutFailed` where it is none that a project may have."""
    try:
        return read_url(url)[0]
    except Refused as refused:
        raise CheckOutFailed(str(refused)) from refused


async def list_refs(git: Git, url: str, ref: str) -> Mapping[str, str]:
    """What the host has, by full names, that `ref` may mean.

    With `^{}` after its name: what an annotated tag is of. Raises `CheckOutFailed`.
    """
    output = await git.must("ls-remote", "--quiet", "--", url, *_names(ref))
    pairs = (line.partition("\t") for line in output.splitlines())
    # It looks for names that end so.
    return {name: commit for commit, _, name in pairs if name in _names(ref)}


def choose_ref(found: Mapping[str, str], ref: str) -> str | None:
    """The full name of the branch or tag that `ref` is; None: the host has none."""
    return next((name for name in _names(ref) if name in found and not name.endswith("^{}")), None)


def _names(ref: str) -> tuple[str, ...]:
    names = (ref,) if ref == "HEAD" or ref.startswith("refs/") else (f"refs/heads/{ref}", f"refs/tags/{ref}")
    return tuple(part for name in names for part in (name, f"{name}^{{}}"))


async def _find_commit(git: Git, url: str, beginning: str, most_bytes: int | None) -> str:
    """The one commit of a branch or tag that begins so: hosts cannot be asked for it, so all are fetched."""
    async with temporary_folder("pharos-resolve-") as folder:
        git = replace(git, git_dir=folder / "git")
        cloning = _clone_commits(git, url)
        await (cloning if most_bytes is None else fetch_within(cloning, folder, most_bytes))
        # A tag may point to an object that the partial clone left out.
        answer = await git.offline().run(
            "rev-parse", "--verify", "--end-of-options", f"{beginning}^{{commit}}"
        )
    if answer.succeeded:
        # Git also finds a branch of this name, which the host has if `ref` was in capital letters.
        if not answer.output.startswith(beginning):
            raise missing_ref(beginning)
        return answer.output.strip()
    if any("ambiguous" in line for line in answer.said):
        raise CheckOutFailed(
            f"More than one commit of the repository begins with {beginning}. Give more of its digits."
        )
    if any("Needed a single revision" in line for line in answer.said):
        raise missing_ref(beginning)
    raise explain_failure(answer.said)


async def _clone_commits(git: Git, url: str) -> None:
    """Fetch all commits into a new repository, without trees and files where the host supports partial clones.

    Raises `CheckOutFailed`.
    """
    # A clone writes all refs into one file; a fetch writes one file for each ref, and a repository may have 100,000.
    options = ("--quiet", "--bare", "--no-local", "--template=", "--filter=tree:0")
    await git.must("clone", *options, "--", url, str(git.git_dir))


def object_format(digits: int) -> str:
    """The option for a new repository that is to hold commits of so many digits."""
    return f"--object-format={'sha256' if digits == 64 else 'sha1'}"


def everything() -> tuple[str, str]:
    """What to fetch for all branches and tags, kept under names that nobody asks for."""
    return "+refs/heads/*:refs/found/heads/*", "+refs/tags/*:refs/found/tags/*"
