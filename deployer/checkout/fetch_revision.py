"""Fetches the objects of one revision into a new repository, with Pharos' credentials.

Nothing is checked out: only git's own object parser reads data of the repository.
"""

from deployer.checkout.failures import CheckOutFailed, explain_failure, is_commit_refused, ref_not_found
from deployer.checkout.resolve_ref import all_refspecs, choose_ref, list_refs, object_format_option
from deployer.checkout.run_git import Git, OnLine

MAX_FILES = 500_000
_FETCHED_REF = "refs/pharos/revision"
_FETCH = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance")
# Git reads this depth as "infinite": a shallow repository gets the missing commits, any other stays as it is
# (git-fetch(1), --unshallow).
_ALL_HISTORY = "--depth=2147483647"


async def fetch_revision(git: Git, url: str, revision: str, ref: str | None, on_line: OnLine) -> None:
    """Create a repository at `git.git_dir` that has this commit. Raises `CheckOutFailed`.

    Most hosts serve any commit. If a host does not, fetch the tip of `ref` if the tip is the commit, and all refs
    otherwise.
    """
    await git.run_checked("init", "--quiet", "--template=", object_format_option(len(revision)))
    # URLs of submodules may be relative to the URL of the repository.
    await git.run_checked("config", "remote.origin.url", url)
    result = await git.run(*_FETCH, "--depth=1", "origin", f"+{revision}:{_FETCHED_REF}", on_line=on_line)
    if not result.succeeded:
        if not is_commit_refused(result.error_lines):
            raise explain_failure(result.error_lines)
        if ref is None or not await _fetch_tip(git, url, revision, ref, on_line):
            await on_line("The host does not give this commit alone: fetching all branches and tags.")
            await git.run_checked(*_FETCH, _ALL_HISTORY, "origin", *all_refspecs(), on_line=on_line)
    await _check_commit(git, revision)
    await _count_files(git, revision)


async def _fetch_tip(git: Git, url: str, revision: str, ref: str, on_line: OnLine) -> bool:
    """Fetch the newest commit of `ref` if it is the revision. Return True if the repository then has the revision."""
    found = await list_refs(git, url, ref)
    name = choose_ref(found, ref)
    if name is None or revision not in (found[name], found.get(f"{name}^{{}}")):
        return False
    await git.run_checked(*_FETCH, "--depth=1", "origin", f"+{name}:{_FETCHED_REF}", on_line=on_line)
    # The branch may have moved since it was listed.
    return await _read_type(git, revision) is not None


async def _check_commit(git: Git, revision: str) -> None:
    kind = await _read_type(git, revision)
    if kind is None:
        raise ref_not_found(revision)
    if kind != "commit":
        raise CheckOutFailed(
            f"{revision} is a {kind}, not a commit. Deploy the commit, or the tag by its name."
        )


async def _read_type(git: Git, revision: str) -> str | None:
    result = await git.run("cat-file", "-t", revision)
    return result.output.strip() if result.succeeded else None


async def _count_files(git: Git, revision: str) -> None:
    """Raise `CheckOutFailed` if the revision has too many files, before any file is written: a few kilobytes of objects
    can describe billions of files."""
    seen = 0

    def count(output: bytes) -> None:
        nonlocal seen
        seen += output.count(b"\0")
        if seen > MAX_FILES:
            raise too_many_files()

    result = await git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", revision, on_output=count)
    if not result.succeeded:
        raise explain_failure(result.error_lines)


def too_many_files() -> CheckOutFailed:
    return CheckOutFailed(f"The repository has more than {MAX_FILES:,} files. Remove some.")
