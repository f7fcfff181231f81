"""Brings the objects of one revision into a new repository, as the user whose credentials Pharos has.

Nothing is checked out, so nothing that the repository holds is looked at by more than git's own reading of objects.
"""

from deployer.check_out.failures import CheckOutFailed, explain_failure, is_commit_refused, missing_ref
from deployer.check_out.resolve_ref import choose_ref, everything, list_refs, object_format
from deployer.check_out.run_git import Git, OnLine

MOST_FILES = 500_000
_KEPT = "refs/pharos/revision"
_FETCH = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance")
# Git's "infinite": a shallow repository gets the rest, any other stays as it is (git-fetch(1), --unshallow).
_ALL_HISTORY = "--depth=2147483647"


async def fetch_revision(git: Git, url: str, revision: str, ref: str | None, on_line: OnLine) -> None:
    """Make a repository at `git.git_dir` that has this commit. Raises `CheckOutFailed`.

    Most hosts give any commit. Where one does not, the commit is looked for at the end of `ref`, then everywhere.
    """
    await git.must("init", "--quiet", "--template=", object_format(len(revision)))
    # Addresses of submodules may be relative to it.
    await git.must("config", "remote.origin.url", url)
    answer = await git.run(*_FETCH, "--depth=1", "origin", f"+{revision}:{_KEPT}", on_line=on_line)
    if not answer.succeeded:
        if not is_commit_refused(answer.said):
            raise explain_failure(answer.said)
        if ref is None or not await _fetch_end(git, url, revision, ref, on_line):
            await on_line("The host does not give this commit alone: fetching all branches and tags.")
            await git.must(*_FETCH, _ALL_HISTORY, "origin", *everything(), on_line=on_line)
    await _check_commit(git, revision)
    await _count_files(git, revision)


async def _fetch_end(git: Git, url: str, revision: str, ref: str, on_line: OnLine) -> bool:
    """Fetch the last commit of `ref`, and tell whether it is the revision."""
    found = await list_refs(git, url, ref)
    name = choose_ref(found, ref)
    if name is None or revision not in (found[name], found.get(f"{name}^{{}}")):
        return False
    await git.must(*_FETCH, "--depth=1", "origin", f"+{name}:{_KEPT}", on_line=on_line)
    # It may have gone on since.
    return await _type_of(git, revision) is not None


async def _check_commit(git: Git, revision: str) -> None:
    kind = await _type_of(git, revision)
    if kind is None:
        raise missing_ref(revision)
    if kind != "commit":
        raise CheckOutFailed(
            f"{revision} is a {kind} and no commit. Deploy the commit, or the tag by its name."
        )


async def _type_of(git: Git, revision: str) -> str | None:
    answer = await git.run("cat-file", "-t", revision)
    return answer.output.strip() if answer.succeeded else None


async def _count_files(git: Git, revision: str) -> None:
    """Before they are written: a few kilobytes of objects can hold billions of files."""
    seen = 0

    def count(output: bytes) -> None:
        nonlocal seen
        seen += output.count(b"\0")
        if seen > MOST_FILES:
            raise too_many_files()

    answer = await git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", revision, on_output=count)
    if not answer.succeeded:
        raise explain_failure(answer.said)


def too_many_files() -> CheckOutFailed:
    """The failure of a tree that is larger than any that is worked on by hand."""
    return CheckOutFailed(f"The repository has more than {MOST_FILES:,} files. Leave some out of it.")
