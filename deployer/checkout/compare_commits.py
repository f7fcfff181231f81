"""Compares two commits: lists the commits that are in the history of only one of them."""

from control_domain.deployments.new_commits import MAX_LISTED, CommitSummary, NewCommits, describe_found
from deployer.checkout.failures import CheckOutFailed
from deployer.checkout.fetch_commits import fetched_commits
from deployer.checkout.read_commit import show_on_one_line
from deployer.checkout.run_git import Git

MAX_DEPTH = 250
"""How many commits Pharos fetches before each of the two compared commits."""

# Maximum number of characters that git prints of a field. Pharos shows fewer.
_MAX_CHARACTERS = 250


async def compare_commits(
    url: str,
    revision: str,
    since: str,
    *,
    timeout_seconds: float,
    most_bytes: int,
    mark: str | None = None,
) -> NewCommits:
    """Return the commits that `revision` has and `since` does not have, and the number of commits that `since` has
    and `revision` does not have.

    Fetches the commits, without files, into a temporary folder. `mark`: see `open_git`. Raises `CheckOutFailed`, also
    if the last `MAX_DEPTH` commits of the two have none in common.
    """
    if revision == since:
        return describe_found(since, 0, 0, [])
    async with fetched_commits(
        url,
        revision,
        since,
        depth=MAX_DEPTH + 1,
        timeout_seconds=timeout_seconds,
        most_bytes=most_bytes,
        mark=mark,
    ) as git:
        return await _compare(git, revision, since)


async def _compare(git: Git, revision: str, since: str) -> NewCommits:
    common = await git.run("merge-base", revision, since)
    if not common.succeeded:
        raise CheckOutFailed(f"The last {MAX_DEPTH} commits of the two have none in common.")
    counts = await git.run_checked("rev-list", "--left-right", "--count", f"{revision}...{since}")
    added, missing = (int(count) for count in counts.split())
    log = await git.run_checked(
        "log",
        f"--max-count={MAX_LISTED}",
        "--no-show-signature",
        f"--format=%H%x00%<({_MAX_CHARACTERS},trunc)%s%x00%<({_MAX_CHARACTERS},trunc)%an",
        f"{since}..{revision}",
    )
    # The text of a commit may contain any character but NUL. Git puts no line break into these fields.
    return describe_found(since, added, missing, [_read_line(line) for line in log.split("\n") if line])


def _read_line(line: str) -> CommitSummary:
    revision, subject, author = line.split("\0")
    return CommitSummary(
        revision=revision, subject=show_on_one_line(subject), author=show_on_one_line(author)
    )
