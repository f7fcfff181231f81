"""`check_out` fetches as one user, writes as another, and executes nothing of a hostile repository."""

import asyncio
import shutil
from pathlib import Path

import pytest

from deployer.checkout.failures import CheckOutFailed
from tests.deployer.checkout.conftest import Work, make_work
from tests.deployer.checkout.git_host import GitHost
from tests.deployer.checkout.owner import Owner


async def test_the_files_of_the_revision_are_written_without_its_history(work: Work, owner: Owner) -> None:
    work.commit(a="0")
    first = work.commit(a="1", **{"src/b": "2"})
    work.commit(a="3", c="4")
    assert await owner.check_out(work.url, first) == ("a change", "Ada")
    assert owner.files() == {"a", "src/b"}
    assert (owner.folder / "a").read_text() == "1"
    assert (owner.folder / ".git" / "shallow").read_text().strip() == first
    assert owner.lines == [f"Fetching {first} from {work.url}"]
    assert owner.printed == ""
    assert not list((owner.folder / ".git").glob("hooks/*"))


@pytest.mark.parametrize("ref", ["v1", None])
async def test_checkout_of_a_commit_that_only_a_tag_has(work: Work, owner: Owner, ref: str | None) -> None:
    tagged = work.commit(a="1")
    work.git("tag", "-a", "v1", "-m", "one")
    work.git("checkout", "--quiet", "--orphan", "other")
    work.commit(b="2")
    work.git("push", "--quiet", "origin", ":refs/heads/main")
    await owner.check_out(work.url, tagged, ref)
    assert owner.files() == {"a"}


async def test_a_repository_of_sha256_is_checked_out(tmp_path: Path, owner: Owner) -> None:
    work = make_work(tmp_path, "new", "sha256")
    await owner.check_out(work.url, work.commit(a="1"))
    assert owner.files() == {"a"}


@pytest.fixture
def old_protocol(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use protocol 0, in which hosts serve only the tips of branches and tags."""
    from deployer.checkout import run_git

    settings = tuple(setting.replace("version=2", "version=0") for setting in run_git._SETTINGS)
    monkeypatch.setattr(run_git, "_SETTINGS", settings)


@pytest.mark.usefixtures("old_protocol")
@pytest.mark.parametrize("over_https", [False, True])
async def test_the_tip_of_the_ref_is_fetched_from_a_host_that_serves_no_single_commits(
    work: Work, owner: Owner, host: GitHost, over_https: bool
) -> None:
    first = work.commit(a="1")
    last = work.commit(a="2")
    work.git("tag", "-a", "v2", "-m", "two")
    work.git("push", "--quiet", "--tags", "origin", f"{first}:refs/heads/other")
    work.git("push", "--quiet", "origin", ":refs/heads/other")
    url = f"{host.url}/shop.git" if over_https else work.url
    await owner.check_out(url, last, "v2")
    assert (owner.folder / "a").read_text() == "2"
    assert (owner.folder / ".git" / "shallow").exists()


@pytest.mark.usefixtures("old_protocol")
@pytest.mark.parametrize("ref", ["main", "gone", None])
async def test_all_refs_are_fetched_from_a_host_that_serves_no_single_commits(
    work: Work, owner: Owner, ref: str | None
) -> None:
    first = work.commit(a="1")
    work.commit(a="2")
    await owner.check_out(work.url, first, ref)
    assert (owner.folder / "a").read_text() == "1"
    assert owner.lines[1:] == ["The host does not give this commit alone: fetching all branches and tags."]


@pytest.mark.parametrize("ref", ["main", None])
async def test_a_missing_commit_is_reported(work: Work, owner: Owner, ref: str | None) -> None:
    work.commit(a="1")
    with pytest.raises(
        CheckOutFailed, match=f"There is no branch, tag or commit '{'1' * 40}' in the repository."
    ):
        await owner.check_out(work.url, "1" * 40, ref)
    assert owner.commands == []


async def test_a_revision_that_is_not_a_commit_is_refused(work: Work, owner: Owner) -> None:
    work.commit(a="1")
    with pytest.raises(CheckOutFailed, match="is a tree, not a commit"):
        await owner.check_out(work.url, work.git("rev-parse", "HEAD^{tree}"))
    with pytest.raises(CheckOutFailed, match="is not a full commit hash"):
        await owner.check_out(work.url, "main; id")


async def test_hooks_and_filters_of_the_repository_are_not_executed(
    work: Work, owner: Owner, tmp_path: Path
) -> None:
    hook = f"#!/bin/sh\ntouch {tmp_path}/ran\n"
    for name in ("post-checkout", "reference-transaction", "pre-auto-gc", "upload-pack"):
        work.commit(**{f"hooks/{name}": hook, f".githooks/{name}": hook})
        (work.folder / "hooks" / name).chmod(0o755)
        (work.bare / "hooks" / name).write_text(hook)
        (work.bare / "hooks" / name).chmod(0o755)
    revision = work.commit(
        __gitattributes="* filter=evil\n", __gitconfig=f'[filter "evil"]\n\tsmudge = touch {tmp_path}/ran\n'
    )
    for path in tmp_path.glob("ran"):
        path.unlink()
    await owner.check_out(work.url, revision)
    assert not (tmp_path / "ran").exists()


async def test_hooks_of_the_operator_are_not_executed(
    work: Work, owner: Owner, home: Path, tmp_path: Path
) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("post-checkout", "reference-transaction"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (hooks / name).chmod(0o755)
    (home / ".gitconfig").write_text(f"[core]\n\thooksPath = {hooks}\n[init]\n\ttemplateDir = {tmp_path}\n")
    await owner.check_out(work.url, work.commit(a="1"))
    assert not (tmp_path / "ran").exists()


async def test_too_many_files_are_refused_before_they_are_written(work: Work, owner: Owner) -> None:
    # 10 levels of 10 names each, in eleven objects: 10 billion files.
    blob = work.git("hash-object", "-w", "-t", "blob", "/dev/null")
    tree = work.git("mktree", stdin="".join(f"100644 blob {blob}\tf{number}\n" for number in range(10)))
    for _ in range(9):
        tree = work.git("mktree", stdin="".join(f"040000 tree {tree}\td{number}\n" for number in range(10)))
    work.git("push", "--quiet", "origin", f"{work.git('commit-tree', tree, '-m', 'bomb')}:refs/heads/bomb")
    revision = work.git("ls-remote", "origin", "refs/heads/bomb").split()[0]
    with pytest.raises(CheckOutFailed, match="more than 500,000 files"):
        await owner.check_out(work.url, revision, "bomb")
    assert owner.commands == []


async def test_a_tree_that_contains_a_git_folder_is_refused(work: Work, owner: Owner) -> None:
    blob = work.git("hash-object", "-w", "-t", "blob", "/dev/null")

    inner = work.git("mktree", stdin=f"100755 blob {blob}\tconfig\n")
    tree = work.git("mktree", stdin=f"040000 tree {inner}\t.GIT\n")
    revision = work.git("commit-tree", tree, "-m", "hostile")
    work.git("push", "--quiet", "origin", f"{revision}:refs/heads/main")
    with pytest.raises(CheckOutFailed, match="made to do harm"):
        await owner.check_out(work.url, revision)
    assert owner.commands == []


async def test_malformed_commits_of_old_programs_are_accepted(work: Work, owner: Owner) -> None:
    work.commit(a="1")
    tree = work.git("rev-parse", "HEAD^{tree}")
    text = f"tree {tree}\nauthor Ada <ada@x> 01234567890 +051800\ncommitter Ada<ada@x> 0 +0000\n\nold\n"
    old = work.git("hash-object", "-t", "commit", "-w", "--stdin", "--literally", stdin=text)
    work.git("push", "--quiet", "--force", "origin", f"{old}:refs/heads/main")
    await owner.check_out(work.url, old)
    assert owner.files() == {"a"}


async def test_errors_of_the_owner_pass_through(work: Work, owner: Owner) -> None:
    revision = work.commit(a="1")

    async def fail(command: str) -> None:
        raise TimeoutError("of the runner's own")

    owner.run = fail  # type: ignore[method-assign]
    with pytest.raises(TimeoutError, match="of the runner's own"):
        await owner.check_out(work.url, revision)


async def test_the_time_limit_covers_the_fetch_and_the_writing(work: Work, owner: Owner) -> None:
    revision = work.commit(a="1")

    async def sleep(command: str) -> None:
        await asyncio.Event().wait()

    owner.run = sleep  # type: ignore[method-assign]
    # On a busy machine the fetch alone may exceed a short limit.
    for seconds in (1.5, 6, 24, 90):
        with pytest.raises(CheckOutFailed, match=f"could not be .* within {seconds:g} seconds") as failed:
            await owner.check_out(work.url, revision, seconds=seconds)
        if "could not be fetched" not in str(failed.value):
            break
        shutil.rmtree(owner.folder)
        owner.folder.mkdir()
    assert f"files could not be written within {seconds:g} seconds" in str(failed.value)


@pytest.mark.parametrize("attributes", [".config/git/attributes", "own"])
async def test_attributes_in_the_home_of_the_build_change_no_file(
    work: Work, owner: Owner, tmp_path: Path, attributes: str
) -> None:
    """An earlier build may leave attributes in its home, which Git reads even if no setting names the file."""
    builds = owner.home = tmp_path / "builds"
    (builds / attributes).parent.mkdir(parents=True)
    (builds / attributes).write_text("* filter=change\n")
    (builds / ".gitconfig").write_text(
        f'[core]\n\tattributesFile = {builds / attributes}\n[filter "change"]\n\tsmudge = echo changed\n'
    )
    await owner.check_out(work.url, work.commit(a="approved"))
    assert (owner.folder / "a").read_text() == "approved"
