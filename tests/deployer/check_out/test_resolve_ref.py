"""Branches, tags and beginnings of commits to commits; failures in sentences."""

import asyncio
import hashlib
import os
from asyncio.base_subprocess import BaseSubprocessTransport
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from deployer.check_out.failures import CheckOutFailed
from deployer.check_out.resolve_ref import resolve_ref
from deployer.check_out.run_git import _wait_started
from tests.deployer.check_out.conftest import Work, make_work
from tests.deployer.check_out.git_host import GitHost


async def test_names_become_commits(work: Work) -> None:
    first = work.commit(a="1")
    work.git("tag", "light")
    work.git("tag", "-a", "v1.0", "-m", "one")
    work.git("tag", "-a", "of-a-tag", "-m", "two", "v1.0")
    second = work.commit(a="2")
    work.git("push", "--quiet", "origin", "HEAD:refs/pull/7/head", "HEAD:refs/heads/feature/main")
    for ref, commit in {
        "main": second,
        "feature/main": second,
        "refs/heads/main": second,
        "refs/pull/7/head": second,
        "HEAD": second,
        "light": first,
        "v1.0": first,
        "of-a-tag": first,
        "refs/tags/v1.0": first,
        first: first,
        "A" * 40: "a" * 40,
    }.items():
        assert await resolve_ref(work.url, ref) == commit
        assert await resolve_ref(f"file://{work.url}", ref) == commit


async def test_a_branch_goes_before_a_tag_and_both_before_a_commit(work: Work) -> None:
    first = work.commit(a="1")
    work.git("tag", "-a", "v1", "-m", "one")
    second = work.commit(a="2")
    work.git("push", "--quiet", "origin", f"{second}:refs/heads/v1", f"{second}:refs/heads/{first[:9]}")
    assert await resolve_ref(work.url, "v1") == second
    assert await resolve_ref(work.url, first[:9]) == second


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
async def test_the_beginning_of_a_commit_is_enough(tmp_path: Path, object_format: str) -> None:
    work = make_work(tmp_path, "old", object_format)
    first = work.commit(a="1")
    work.commit(a="2")
    # An unborn HEAD, as bare repositories have it whose branches are called otherwise.
    (work.bare / "HEAD").write_text("ref: refs/heads/trunk\n")
    assert await resolve_ref(work.url, first[:7]) == first
    assert await resolve_ref(work.url, first[:39].upper()) == first
    tree = work.git("rev-parse", "HEAD^{tree}")
    for other in ("0123456", tree[:12]):
        with pytest.raises(CheckOutFailed, match=f"no branch, tag or commit '{other}'"):
            await resolve_ref(work.url, other)


async def test_the_beginning_of_two_commits_is_too_short(work: Work) -> None:
    work.commit(a="1")
    tree = work.git("rev-parse", "HEAD^{tree}")
    seen: dict[str, str] = {}
    # Two of 20,000 numbers of 28 bits are the same more often than not.
    for number in range(10**6):
        text = f"tree {tree}\nauthor A <a@b> {number} +0000\ncommitter A <a@b> {number} +0000\n\nx\n"
        beginning = hashlib.sha1(f"commit {len(text)}\0{text}".encode()).hexdigest()[:7]
        if beginning in seen:
            break
        seen[beginning] = text
    for branch, content in ("one", seen[beginning]), ("two", text):
        commit = work.git("hash-object", "-t", "commit", "-w", "--stdin", given=content)
        assert commit.startswith(beginning)
        work.git("push", "--quiet", "origin", f"{commit}:refs/heads/{branch}")
    with pytest.raises(
        CheckOutFailed, match=f"More than one commit of the repository begins with {beginning}"
    ):
        await resolve_ref(work.url, beginning)


@pytest.mark.parametrize("ref", ["absent", "refs/heads/absent", "abc", "1234567", "HEAD"])
async def test_what_is_not_there_is_said(work: Work, ref: str) -> None:
    with pytest.raises(CheckOutFailed, match=f"There is no branch, tag or commit '{ref}' in the repository."):
        await resolve_ref(work.url, ref)


@pytest.mark.parametrize("ref", ["--upload-pack=touch /tmp/x", "a b", "a..b", "*", ""])
async def test_what_git_allows_as_no_name_is_refused(work: Work, ref: str) -> None:
    with pytest.raises(CheckOutFailed, match="no name of a branch"):
        await resolve_ref(work.url, ref)


@pytest.mark.parametrize(
    "url", ["ext::sh -c id", "--upload-pack=id", "http://shop.example/x", "git://shop.example/x"]
)
async def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(CheckOutFailed, match="write it as https://host/path"):
        await resolve_ref(url, "main")


async def test_an_address_that_git_is_told_to_replace_is_held_to_the_same(work: Work, home: Path) -> None:
    (home / ".gitconfig").write_text('[url "ext::sh -c id "]\n\tinsteadOf = https://\n')
    with pytest.raises(CheckOutFailed, match="insteadOf"):
        await resolve_ref("https://shop.example/x", "main")


async def test_a_repository_that_is_not_there_is_said(tmp_path: Path, host: GitHost) -> None:
    for url in (str(tmp_path / "none.git"), f"{host.url}/none.git"):
        with pytest.raises(CheckOutFailed, match="^There is no repository at this address"):
            await resolve_ref(url, "main")


async def test_a_host_that_is_away_is_said() -> None:
    for url in (
        "https://127.0.0.1:1/x.git",
        "ssh://git@127.0.0.1:1/x.git",
        "https://no-such-host.invalid/certificate",
    ):
        with pytest.raises(CheckOutFailed, match="^The repository's host cannot be reached"):
            await resolve_ref(url, "main")


async def test_a_repository_of_another_user_is_said(work: Work) -> None:
    work.commit(a="1")
    if os.getuid() != 0:
        pytest.skip("only root can give files away")
    for path in (work.bare, *work.bare.rglob("*")):
        os.chown(path, 65_534, 65_534)
    with pytest.raises(CheckOutFailed, match="belongs to another user"):
        await resolve_ref(work.url, "main")


async def test_over_https_without_and_with_a_password(work: Work, host: GitHost, home: Path) -> None:
    commit = work.commit(a="1")
    url = f"{host.url}/shop.git"
    assert await resolve_ref(url, "main") == commit
    host.password = "s3cret-word"
    with pytest.raises(CheckOutFailed, match="a deploy key or a Git credential") as failed:
        await resolve_ref(url, "main")
    (home / "credentials").write_text(url.replace("://", "://ada:wrong-word@") + "\n")
    with (home / ".gitconfig").open("a") as config:
        config.write(f"[credential]\n\thelper = store --file={home}/credentials\n")
    with pytest.raises(CheckOutFailed, match="a deploy key or a Git credential") as failed:
        await resolve_ref(url, "main")
    assert "wrong-word" not in str(failed.value)
    (home / "credentials").write_text(url.replace("://", "://ada:s3cret-word@") + "\n")
    assert await resolve_ref(url, "main") == commit


async def test_a_password_that_the_operator_put_into_an_address_is_not_told(
    host: GitHost, home: Path
) -> None:
    with (home / ".gitconfig").open("a") as config:
        config.write(
            f'[url "{host.url.replace("://", "://ada:s3cret-word@")}/"]\n\tinsteadOf = https://shop.example/\n'
        )
    for host.status in (403, 500, 404):
        with pytest.raises(CheckOutFailed) as failed:
            await resolve_ref("https://shop.example/x.git", "main")
        assert "s3cret" not in str(failed.value)
        assert "Git says: " in str(failed.value)


async def test_a_look_up_with_limits_reaches_a_host_over_https(work: Work, host: GitHost) -> None:
    commit = work.commit(a="1")
    assert await resolve_ref(f"{host.url}/shop.git", commit[:9], most_bytes=2**20) == commit


async def test_a_certificate_that_nobody_vouches_for_is_said(work: Work, host: GitHost, home: Path) -> None:
    (home / ".gitconfig").unlink()
    with pytest.raises(CheckOutFailed, match="certificate of the repository's host cannot be verified"):
        await resolve_ref(f"{host.url}/shop.git", "main")


async def test_a_host_that_says_nothing_is_left_in_time() -> None:
    accepted = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        for url in (f"https://127.0.0.1:{port}/x.git", f"ssh://git@127.0.0.1:{port}/x.git"):
            accepted.clear()
            # On a busy machine Git may need longer to ask.
            for seconds in (0.7, 3, 12, 48):
                with pytest.raises(CheckOutFailed, match=f"did not answer within {seconds:g} seconds"):
                    await resolve_ref(url, "main", timeout_seconds=seconds)
                if accepted.is_set():
                    break
            assert accepted.is_set()


async def test_a_machine_without_git_is_said(
    work: Work, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CheckOutFailed, match="There is no git on this machine"):
        await resolve_ref(work.url, "main")


async def test_the_operators_way_to_use_ssh_counts(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("configured", "given"):
        script = tmp_path / name
        script.write_text(
            f'#!/bin/sh\necho "$@" > {tmp_path}/{name}.used\nenv > {tmp_path}/environment\nexit 1\n'
        )
        script.chmod(0o700)
    monkeypatch.setenv("PHAROS_SECRET_KEY", "never-to-be-seen")
    (home / ".gitconfig").write_text(f"[core]\n\tsshCommand = {tmp_path}/configured\n")
    with pytest.raises(CheckOutFailed):
        await resolve_ref("git@shop.example:x.git", "main")
    assert "git@shop.example" in (tmp_path / "configured.used").read_text()
    environment = (tmp_path / "environment").read_text()
    assert "PHAROS" not in environment
    assert "GIT_TERMINAL_PROMPT=0" in environment
    monkeypatch.setenv("GIT_SSH_COMMAND", f"{tmp_path}/given")
    with pytest.raises(CheckOutFailed):
        await resolve_ref("git@shop.example:x.git", "main")
    assert (tmp_path / "given.used").exists()


@pytest.mark.parametrize("is_starting", [False, True], ids=["running", "starting"])
async def test_what_git_started_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_starting: bool
) -> None:
    """Also where it is canceled before its pipes are connected, while git runs already."""
    script, told = tmp_path / "ssh", tmp_path / "pid"
    script.write_text(f"#!/bin/sh\necho $$ > {told}\nsleep 600 & wait\n")
    script.chmod(0o700)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(script))
    goes_on = asyncio.Event()
    connect_pipes = BaseSubprocessTransport._connect_pipes

    async def connect_later(transport: Any, waiter: Any) -> None:
        await goes_on.wait()
        await connect_pipes(transport, waiter)

    if is_starting:
        monkeypatch.setattr(BaseSubprocessTransport, "_connect_pipes", connect_later)
    task = asyncio.create_task(resolve_ref("git@shop.example:x.git", "main"))
    async with asyncio.timeout(30):
        while not told.exists() or not told.read_text():
            await asyncio.sleep(0.01)
        group = os.getpgid(int(told.read_text()))
        assert group != os.getpgid(0)
        task.cancel()
        await asyncio.sleep(0)
        goes_on.set()
        await asyncio.wait({task})
        assert task.cancelled()
        while _lives(group):
            await asyncio.sleep(0.01)


async def test_at_the_end_of_the_loop_a_start_is_cancelled_and_nothing_else() -> None:
    """The loop cancels every task: the start, its caller, and those in between."""
    starting: asyncio.Future[asyncio.subprocess.Process] = asyncio.get_running_loop().create_future()
    caller = asyncio.create_task(_wait_started(starting))
    await asyncio.sleep(0)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.wait({caller})
    assert caller.cancelled()


def _lives(group: int) -> bool:
    """Whether a process of the group runs; one that has ended may wait for its parent to look."""
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                return True
    return False
