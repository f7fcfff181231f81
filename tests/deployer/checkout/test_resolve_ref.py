"""`resolve_ref` resolves branches, tags and abbreviated commits, and explains failures."""

import asyncio
import hashlib
import os
from asyncio.base_subprocess import BaseSubprocessTransport
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from deployer.checkout.failures import CheckOutFailed
from deployer.checkout.resolve_ref import resolve_ref
from deployer.checkout.run_git import _wait_started
from tests.deployer.checkout.conftest import Work, make_work
from tests.deployer.checkout.git_host import GitHost


async def test_names_are_resolved_to_commits(work: Work) -> None:
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


async def test_a_branch_takes_precedence_over_a_tag_and_both_over_a_commit(work: Work) -> None:
    first = work.commit(a="1")
    work.git("tag", "-a", "v1", "-m", "one")
    second = work.commit(a="2")
    work.git("push", "--quiet", "origin", f"{second}:refs/heads/v1", f"{second}:refs/heads/{first[:9]}")
    assert await resolve_ref(work.url, "v1") == second
    assert await resolve_ref(work.url, first[:9]) == second


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
async def test_an_abbreviated_commit_is_resolved(tmp_path: Path, object_format: str) -> None:
    work = make_work(tmp_path, "old", object_format)
    first = work.commit(a="1")
    work.commit(a="2")
    # An unborn HEAD, as in a bare repository without a branch of the default name.
    (work.bare / "HEAD").write_text("ref: refs/heads/trunk\n")
    assert await resolve_ref(work.url, first[:7]) == first
    assert await resolve_ref(work.url, first[:39].upper()) == first
    tree = work.git("rev-parse", "HEAD^{tree}")
    for other in ("0123456", tree[:12]):
        with pytest.raises(CheckOutFailed, match=f"no branch, tag or commit '{other}'"):
            await resolve_ref(work.url, other)


async def test_an_ambiguous_abbreviation_is_refused(work: Work) -> None:
    work.commit(a="1")
    tree = work.git("rev-parse", "HEAD^{tree}")
    seen: dict[str, str] = {}
    # Two of 20,000 numbers of 28 bits are the same more often than not.
    for number in range(10**6):
        text = f"tree {tree}\nauthor A <a@b> {number} +0000\ncommitter A <a@b> {number} +0000\n\nx\n"
        abbreviation = hashlib.sha1(f"commit {len(text)}\0{text}".encode()).hexdigest()[:7]
        if abbreviation in seen:
            break
        seen[abbreviation] = text
    for branch, content in ("one", seen[abbreviation]), ("two", text):
        commit = work.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=content)
        assert commit.startswith(abbreviation)
        work.git("push", "--quiet", "origin", f"{commit}:refs/heads/{branch}")
    with pytest.raises(
        CheckOutFailed, match=f"More than one commit of the repository begins with {abbreviation}"
    ):
        await resolve_ref(work.url, abbreviation)


@pytest.mark.parametrize("ref", ["absent", "refs/heads/absent", "abc", "1234567", "HEAD"])
async def test_a_missing_ref_is_reported(work: Work, ref: str) -> None:
    with pytest.raises(CheckOutFailed, match=f"There is no branch, tag or commit '{ref}' in the repository."):
        await resolve_ref(work.url, ref)


@pytest.mark.parametrize("ref", ["--upload-pack=touch /tmp/x", "a b", "a..b", "*", ""])
async def test_a_name_that_git_does_not_allow_is_refused(work: Work, ref: str) -> None:
    with pytest.raises(CheckOutFailed, match="no name of a branch"):
        await resolve_ref(work.url, ref)


@pytest.mark.parametrize(
    "url", ["ext::sh -c id", "--upload-pack=id", "http://shop.example/x", "git://shop.example/x"]
)
async def test_urls_of_other_protocols_are_refused(url: str) -> None:
    with pytest.raises(CheckOutFailed, match="write it as https://host/path"):
        await resolve_ref(url, "main")


async def test_a_url_that_insteadof_replaces_must_be_allowed_too(work: Work, home: Path) -> None:
    (home / ".gitconfig").write_text('[url "ext::sh -c id "]\n\tinsteadOf = https://\n')
    with pytest.raises(CheckOutFailed, match="insteadOf"):
        await resolve_ref("https://shop.example/x", "main")


async def test_a_missing_repository_is_reported(tmp_path: Path, host: GitHost) -> None:
    for url in (str(tmp_path / "none.git"), f"{host.url}/none.git"):
        with pytest.raises(CheckOutFailed, match="^There is no repository at this address"):
            await resolve_ref(url, "main")


async def test_an_unreachable_host_is_reported() -> None:
    for url in (
        "https://127.0.0.1:1/x.git",
        "ssh://git@127.0.0.1:1/x.git",
        "https://no-such-host.invalid/certificate",
    ):
        with pytest.raises(CheckOutFailed, match="^The repository's host cannot be reached"):
            await resolve_ref(url, "main")


async def test_a_repository_of_another_user_is_reported(work: Work) -> None:
    work.commit(a="1")
    if os.getuid() != 0:
        pytest.skip("only root can give files away")
    for path in (work.bare, *work.bare.rglob("*")):
        os.chown(path, 65_534, 65_534)
    with pytest.raises(CheckOutFailed, match="belongs to another user"):
        await resolve_ref(work.url, "main")


async def test_resolution_over_https_without_and_with_a_password(
    work: Work, host: GitHost, home: Path
) -> None:
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


async def test_a_password_in_a_url_of_the_operator_is_not_reported(host: GitHost, home: Path) -> None:
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


async def test_an_untrusted_certificate_is_reported(work: Work, host: GitHost, home: Path) -> None:
    (home / ".gitconfig").unlink()
    with pytest.raises(CheckOutFailed, match="certificate of the repository's host cannot be verified"):
        await resolve_ref(f"{host.url}/shop.git", "main")


async def test_a_host_that_does_not_respond_is_given_up_in_time() -> None:
    accepted = asyncio.Event()

    async def never_respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(never_respond, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        for url in (f"https://127.0.0.1:{port}/x.git", f"ssh://git@127.0.0.1:{port}/x.git"):
            accepted.clear()
            # On a busy machine git may need longer to connect.
            for seconds in (0.7, 3, 12, 48):
                with pytest.raises(CheckOutFailed, match=f"did not answer within {seconds:g} seconds"):
                    await resolve_ref(url, "main", timeout_seconds=seconds)
                if accepted.is_set():
                    break
            assert accepted.is_set()


async def test_a_machine_without_git_is_reported(
    work: Work, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CheckOutFailed, match="There is no git on this machine"):
        await resolve_ref(work.url, "main")


async def test_the_ssh_command_of_the_operator_is_used(
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
async def test_cancellation_kills_the_child_processes_of_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_starting: bool
) -> None:
    """`starting`: git runs already, but asyncio has not connected its pipes yet."""
    script, pid_file = tmp_path / "ssh", tmp_path / "pid"
    script.write_text(f"#!/bin/sh\necho $$ > {pid_file}\nsleep 600 & wait\n")
    script.chmod(0o700)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(script))
    may_connect = asyncio.Event()
    connect_pipes = BaseSubprocessTransport._connect_pipes

    async def connect_later(transport: Any, waiter: Any) -> None:
        await may_connect.wait()
        await connect_pipes(transport, waiter)

    if is_starting:
        monkeypatch.setattr(BaseSubprocessTransport, "_connect_pipes", connect_later)
    task = asyncio.create_task(resolve_ref("git@shop.example:x.git", "main"))
    async with asyncio.timeout(30):
        while not pid_file.exists() or not pid_file.read_text():
            await asyncio.sleep(0.01)
        group = os.getpgid(int(pid_file.read_text()))
        assert group != os.getpgid(0)
        task.cancel()
        await asyncio.sleep(0)
        may_connect.set()
        await asyncio.wait({task})
        assert task.cancelled()
        while _is_running(group):
            await asyncio.sleep(0.01)


async def test_cancellation_of_all_tasks_cancels_the_start_of_git() -> None:
    """The loop cancels every task: the start, its caller, and those in between."""
    starting: asyncio.Future[asyncio.subprocess.Process] = asyncio.get_running_loop().create_future()
    caller = asyncio.create_task(_wait_started(starting))
    await asyncio.sleep(0)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.wait({caller})
    assert caller.cancelled()


def _is_running(group: int) -> bool:
    """Return True if a process of the group runs. Zombies do not count."""
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                return True
    return False
