"""Resolves a branch, a tag or an abbreviated commit hash to a commit."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from control_domain.repositories.urls import BadUrl, read_url
from deployer.checkout.bounded_fetch import fetch_within, temporary_folder
from deployer.checkout.failures import CheckOutFailed, explain_failure, ref_not_found
from deployer.checkout.run_git import Git, open_git, time_limit
from pipeline_contracts.git_refs import is_commit, is_ref

# Git needs at least four digits. A hash of fewer than seven digits is hardly ever unique.
_ABBREVIATED_COMMIT = re.compile("[0-9a-f]{7,63}")
_NO_REPOSITORY = Path("/dev/null")


async def resolve_ref(
    url: str,
    ref: str,
    *,
    mark: str | None = None,
    timeout_seconds: float = 60,
    most_bytes: int | None = None,
) -> str:
    """Return the hash of the commit that `ref` currently names in the repository at `url`: 40 or 64 hexadecimal digits
    in lower case.

    `ref` is a branch, a tag (resolved to its commit), a full name such as refs/pull/7/head, HEAD, or at least seven
    digits of a commit hash. A branch takes precedence over a tag, and a name over an abbreviated hash. A full hash is
    returned without contacting the host. `mark`: see `open_git`. `most_bytes`: for a background look-up, the limit of
    its disk space, which also turns on a memory limit. Raises `CheckOutFailed`.
    """
    if is_commit(ref.lower()):
        return ref.lower()
    if not is_ref(ref):
        raise CheckOutFailed(f"{ref!r} is no name of a branch or tag that Git allows; one is main.")
    deadline = asyncio.get_running_loop().time() + timeout_seconds
    async with time_limit(
        deadline,
        f"The repository's host did not answer within {timeout_seconds:g} seconds. Check the repository's address, "
        "and that this machine reaches its host.",
    ):
        git = await open_git(url := check_url(url), _NO_REPOSITORY, mark, is_limited=most_bytes is not None)
        found = await list_refs(git, url, ref)
        if (chosen := choose_ref(found, ref)) is not None:
            return found[f"{chosen}^{{}}"] if f"{chosen}^{{}}" in found else found[chosen]
        if _ABBREVIATED_COMMIT.fullmatch(abbreviation := ref.lower()):
            return await _find_commit(git, url, abbreviation, most_bytes)
    raise ref_not_found(ref)


def check_url(url: str) -> str:
    """Return the URL in the form that git expects. Raises `CheckOutFailed` for a URL that a project may not use."""
    try:
        return read_url(url)[0]
    except BadUrl as error:
        raise CheckOutFailed(str(error)) from error


async def list_refs(git: Git, url: str, ref: str) -> Mapping[str, str]:
    """Return all refs on the host that `ref` may mean: a map from full names to commit hashes.

    A name that ends with `^{}` stands for the commit that an annotated tag points to. Raises `CheckOutFailed`.
    """
    output = await git.run_checked("ls-remote", "--quiet", "--", url, *_candidate_names(ref))
    pairs = (line.partition("\t") for line in output.splitlines())
    # ls-remote also returns longer names that end with the requested ones.
    return {name: commit for commit, _, name in pairs if name in _candidate_names(ref)}


def choose_ref(found: Mapping[str, str], ref: str) -> str | None:
    """Return the full name of the branch or tag that `ref` means. None if the host has neither."""
    return next((name for name in _candidate_names(ref) if name in found and not name.endswith("^{}")), None)


def _candidate_names(ref: str) -> tuple[str, ...]:
    names = (ref,) if ref == "HEAD" or ref.startswith("refs/") else (f"refs/heads/{ref}", f"refs/tags/{ref}")
    return tuple(part for name in names for part in (name, f"{name}^{{}}"))


async def _find_commit(git: Git, url: str, abbreviation: str, most_bytes: int | None) -> str:
    """Return the commit with this abbreviated hash. Fetches all commits, since hosts cannot look up abbreviations."""
    async with temporary_folder("pharos-resolve-") as folder:
        git = replace(git, git_dir=folder / "git")
        cloning = _clone_commits(git, url)
        await (cloning if most_bytes is None else fetch_within(cloning, folder, most_bytes))
        # A tag may point to an object that the partial clone left out.
        result = await git.offline().run(
            "rev-parse", "--verify", "--end-of-options", f"{abbreviation}^{{commit}}"
        )
    if result.succeeded:
        # Git also finds a branch of this name, which the host has if `ref` was in capital letters.
        if not result.output.startswith(abbreviation):
            raise ref_not_found(abbreviation)
        return result.output.strip()
    if any("ambiguous" in line for line in result.error_lines):
        raise CheckOutFailed(
            f"More than one commit of the repository begins with {abbreviation}. Give more of its digits."
        )
    if any("Needed a single revision" in line for line in result.error_lines):
        raise ref_not_found(abbreviation)
    raise explain_failure(result.error_lines)


async def _clone_commits(git: Git, url: str) -> None:
    """Fetch all commits into a new repository, without trees and files where the host supports partial clones.

    Raises `CheckOutFailed`.
    """
    # A clone writes all refs into one file; a fetch writes one file for each ref, and a repository may have 100,000.
    options = ("--quiet", "--bare", "--no-local", "--template=", "--filter=tree:0")
    await git.run_checked("clone", *options, "--", url, str(git.git_dir))


def object_format_option(digits: int) -> str:
    """Return the option of `git init` for a repository whose commit hashes have `digits` hexadecimal digits."""
    return f"--object-format={'sha256' if digits == 64 else 'sha1'}"


def all_refspecs() -> tuple[str, str]:
    """Return refspecs that fetch all branches and tags. They are stored under names that no user can request."""
    return "+refs/heads/*:refs/found/heads/*", "+refs/tags/*:refs/found/tags/*"
