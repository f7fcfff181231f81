"""The deployer looks up the commits of deployments that await approval, within limits."""

import asyncio
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import OperationalError

from control_domain.database import changes
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from control_domain.tables.repositories import Repository
from deployer.checkout import bounded_fetch, run_git
from deployer.checkout.failures import CheckOutFailed
from deployer.checkout.read_commit import parse_commit, read_commit
from deployer.checkout.resolve_ref import resolve_ref
from deployer.database_memory import DatabaseRefused
from deployer.deployments import commit_lookups
from deployer.deployments.commit_lookups import CommitLookup, CommitLookups
from deployer.shield import end_tasks
from tests.support.deploy_platform import Platform, environment_path

NAME = "shop/production"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit, whose subject and author have terminal control sequences."""
    path = tmp_path / "shop"
    for command in (
        ("init", "--quiet", "-b", "main", str(path)),
        (
            "-C",
            str(path),
            "-c",
            "user.name=Eve\x1b[2J",
            "-c",
            "user.email=e@e.example",
            "commit",
            "--quiet",
            "--allow-empty",
            "-m",
            "Fix\x1b[31m it\x07\n\nbody",
        ),
    ):
        subprocess.run(["git", *command], check=True)
    return path


def _head(repository: Path, branch: str = "HEAD") -> str:
    command = ["git", "-C", str(repository), "rev-parse", branch]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


async def _read(repository: Path, revision: str, most_bytes: int = 2**20) -> tuple[str, str]:
    return await read_commit(f"file://{repository}", revision, timeout_seconds=60, most_bytes=most_bytes)


def _commit(repository: Path, subject: str) -> None:
    git = ("git", "-C", str(repository), "-c", "user.name=Eve", "-c", "user.email=e@e.example")
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", subject], check=True)


def _add_release_branch(repository: Path) -> None:
    """Add the branch `release`, one commit ahead of `main`."""
    git = ("git", "-C", str(repository), "-c", "user.name=Eve", "-c", "user.email=e@e.example")
    for command in (
        ("checkout", "--quiet", "-b", "release"),
        ("commit", "--quiet", "--allow-empty", "-m", "Of release"),
        ("checkout", "--quiet", "main"),
    ):
        subprocess.run([*git, *command], check=True)


async def _add_awaiting_deployment(
    platform: Platform, url: str, ref: str | None = "main", branch: str | None = None
) -> int:
    await platform.change(NAME, deploys_need_approval=True, branch=branch)
    async with platform.sessions() as session, session.begin():
        await session.execute(update(Repository).values(url=url))
    path = environment_path(platform.acme.places[NAME], "deploy")
    return int((await platform.call("POST", path, {} if ref is None else {"ref": ref})).data["id"])


async def _accept() -> None:
    """Accept the database."""


async def _look_up(platform: Platform, number: int) -> Deployment:
    """Run the due look-ups, and return the deployment."""
    lookups = CommitLookups(platform.sessions, "test", _accept)
    await lookups.start_due()
    await asyncio.gather(*lookups._running)
    async with platform.sessions() as session:
        return await session.get_one(Deployment, number)


async def test_the_commits_of_a_disconnected_repository_are_not_looked_up(
    platform: Platform, repository: Path
) -> None:
    number = await _add_awaiting_deployment(platform, str(repository))
    async with platform.sessions() as session, session.begin():
        await session.execute(update(Repository).values(disconnected_at=datetime.now(UTC)))
    assert (await _look_up(platform, number)).commit_looked_up_at is None


async def test_the_commit_its_subject_and_its_author_are_stored(
    platform: Platform, repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # As under `make up`, where the folder for temporary files is a relative path.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", "temporary")
    number = await _add_awaiting_deployment(platform, str(repository))
    found = await _look_up(platform, number)
    assert found.revision == _head(repository)
    assert (found.commit_subject, found.commit_author, found.commit_fault) == ("Fix it", "Eve", None)
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize(
    ("ref", "branch", "subject"),
    [(None, "release", "Of release"), (None, None, "Fix it"), ("main", "release", "Fix it")],
)
async def test_the_newest_commit_of_the_deployed_branch_is_looked_up(
    platform: Platform, repository: Path, ref: str | None, branch: str | None, subject: str
) -> None:
    _add_release_branch(repository)
    found = await _look_up(platform, await _add_awaiting_deployment(platform, str(repository), ref, branch))
    assert found.commit_subject == subject


async def test_the_commits_that_would_go_live_are_compared_with_the_live_release(
    platform: Platform, repository: Path
) -> None:
    first = _head(repository)
    _add_release_branch(repository)
    for subject in ("Of \x1b[31mmain", "Last of main " + "x" * 300):
        _commit(repository, subject)
    number = await _add_awaiting_deployment(platform, str(repository))
    environment = platform.acme.environment(NAME).id
    async with platform.sessions() as session, session.begin():
        [release_id] = await session.scalars(select(Release.id).limit(1))
        session.add(LiveRelease(environment_id=environment, release_id=release_id, since=datetime.now(UTC)))
    newest = [("Last of main " + "x" * 187, "Eve"), ("Of main", "Eve")]
    cases: tuple[tuple[str, tuple[int | None, int | None], list[tuple[str, str]]], ...] = (
        (first, (2, 0), newest),
        (_head(repository, "release"), (2, 1), newest),
        (_head(repository), (0, 0), []),
        # Removed at the host, such as by a forced push.
        ("f" * 40, (None, None), []),
    )
    for live, counts, listed in cases:
        async with platform.sessions() as session, session.begin():
            await session.execute(update(Release).values(revision=live))
            # The look-up is due although only the live release has changed.
            await session.execute(update(Deployment).values(commit_looked_up_at=None))
        assert (await _look_up(platform, number)).commit_subject == newest[0][0]
        [waiting] = (await platform.call("GET", "/v1/approvals")).data
        found = waiting["deployment"]["new_commits"]
        assert (found["since"], found["added"], found["missing"]) == (live, *counts)
        assert [(each["subject"], each["author"]) for each in found["newest"]] == listed
        assert bool(found["fault"]) == (counts[0] is None)
        lookups = CommitLookups(platform.sessions, "test", _accept)
        async with platform.sessions() as session, session.begin():
            await session.execute(update(Deployment).values(commit_looked_up_at=None))
        # Only a failed comparison is repeated.
        assert bool(await lookups._find_due(0)) == (counts[0] is None)
    async with platform.sessions() as session, session.begin():
        await session.execute(update(Release).values(revision=first))
    [waiting] = (await platform.call("GET", "/v1/approvals")).data
    assert waiting["deployment"]["new_commits"] is None


async def test_the_reason_of_a_failed_look_up_is_stored_and_the_look_up_is_retried_later(
    platform: Platform, repository: Path, tmp_path: Path
) -> None:
    number = await _add_awaiting_deployment(platform, str(tmp_path / "nowhere"))
    found = await _look_up(platform, number)
    assert found.revision is None and found.commit_fault
    async with platform.sessions() as session, session.begin():
        await session.execute(update(Repository).values(url=str(repository)))
    assert (await _look_up(platform, number)).revision is None
    async with platform.sessions() as session, session.begin():
        before = datetime.now(UTC) - timedelta(minutes=6)
        await session.execute(update(Deployment).values(commit_looked_up_at=before))
    found = await _look_up(platform, number)
    assert (found.revision, found.commit_fault) == (_head(repository), None)


async def test_a_commit_that_is_too_large_is_not_fetched(
    repository: Path,
) -> None:
    with pytest.raises(CheckOutFailed, match="is larger than"):
        await _read(repository, _head(repository), most_bytes=0)


async def test_a_refused_database_gets_no_claim_and_no_commit(
    platform: Platform, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = await _add_awaiting_deployment(platform, str(repository))
    refused = True

    async def check() -> None:
        if refused:
            raise DatabaseRefused("another database")

    lookups = CommitLookups(platform.sessions, "test", check)
    await lookups._poll()
    assert not lookups._running

    async def read(*_args: object, **_kwargs: object) -> tuple[str, str]:
        nonlocal refused
        refused = True
        return "subject", "author"

    monkeypatch.setattr(commit_lookups, "read_commit", read)
    async with platform.sessions() as session:
        assert (await session.get_one(Deployment, number)).commit_looked_up_at is None
    refused = False
    await lookups._poll()
    await asyncio.gather(*lookups._running)
    async with platform.sessions() as session:
        found = await session.get_one(Deployment, number)
    assert found.commit_looked_up_at is not None and found.commit_subject is None


@pytest.mark.both_databases
@pytest.mark.parametrize("tried_minutes", [None, 6])
async def test_a_cancelled_look_up_is_due_again(
    platform: Platform, repository: Path, monkeypatch: pytest.MonkeyPatch, tried_minutes: int | None
) -> None:
    number = await _add_awaiting_deployment(platform, str(repository))
    tried = None if tried_minutes is None else datetime.now(UTC) - timedelta(minutes=tried_minutes)
    async with platform.sessions() as session, session.begin():
        await session.execute(
            update(Deployment).where(Deployment.id == number).values(commit_looked_up_at=tried)
        )
    lookups = CommitLookups(platform.sessions, "test", _accept)
    begun = asyncio.Event()

    async def read(*_args: object, **_kwargs: object) -> tuple[str, str]:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(commit_lookups, "read_commit", read)
    running = asyncio.create_task(lookups.run())
    await begun.wait()
    await end_tasks(running)
    async with platform.sessions() as session:
        assert (await session.get_one(Deployment, number)).commit_looked_up_at == tried

    # Cancelled before its first step.
    start = lookups._start

    async def start_and_cancel(lookup: CommitLookup) -> None:
        await start(lookup)
        running.cancel()

    monkeypatch.setattr(lookups, "_start", start_and_cancel)
    running = asyncio.create_task(lookups.run())
    await asyncio.wait({running})
    async with platform.sessions() as session:
        assert (await session.get_one(Deployment, number)).commit_looked_up_at == tried


async def test_a_claim_of_another_deployer_is_not_released(platform: Platform, repository: Path) -> None:
    number = await _add_awaiting_deployment(platform, str(repository))
    lookups = CommitLookups(platform.sessions, "test", _accept)
    (lookup,) = await lookups._find_due(0)
    now = datetime.now(UTC)
    lookups._claimed[number] = now - timedelta(minutes=6)
    async with platform.sessions() as session, session.begin():
        await session.execute(
            update(Deployment).where(Deployment.id == number).values(commit_looked_up_at=now)
        )
    await lookups._release_claims([lookup])
    async with platform.sessions() as session:
        assert (await session.get_one(Deployment, number)).commit_looked_up_at == now


async def test_a_found_commit_is_stored_after_a_short_database_outage(
    platform: Platform, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_lookups, "_WRITE_PAUSES", (0.0,))
    number = await _add_awaiting_deployment(platform, str(repository))
    real, faults = CommitLookups._write, [OperationalError("", {}, Exception("away"))]

    async def write(self: CommitLookups, *args: Any) -> None:
        if faults:
            raise faults.pop()
        await real(self, *args)

    monkeypatch.setattr(CommitLookups, "_write", write)
    assert (await _look_up(platform, number)).commit_subject == "Fix it"


async def test_look_ups_continue_after_every_failure_and_an_outage_is_logged_once(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(commit_lookups, "_POLL_SECONDS", 0.0)
    monkeypatch.setattr(commit_lookups, "_FAILED_SECONDS", 0.0)
    monkeypatch.setattr(changes, "_UNCHANGED_SECONDS", 0.0)
    lookups = CommitLookups(platform.sessions, "test", _accept)
    faults: list[Exception | None] = [OperationalError("", {}, Exception("away"))] * 3
    faults += [None, OperationalError("", {}, Exception("away")), ValueError("a bad row"), None]
    done = asyncio.Event()

    async def start_due() -> None:
        if not faults:
            done.set()
        elif (fault := faults.pop(0)) is not None:
            raise fault

    monkeypatch.setattr(lookups, "start_due", start_due)
    running = asyncio.create_task(lookups.run())
    try:
        async with asyncio.timeout(10):
            await done.wait()
    finally:
        await end_tasks(running)
    logged = [record.getMessage() for record in caplog.records if record.name == commit_lookups.__name__]
    assert [("cannot be read" in each, "could not be read" in each) for each in logged] == [
        (True, False), (True, False), (False, True)]  # fmt: skip


class _EndlessLookups(CommitLookups):
    """Look-ups of given rows that never end."""

    def __init__(self, rows: list[CommitLookup]) -> None:
        self._rows, self._running, self._claimed = rows, {}, {}
        self.claimed: list[int] = []
        self._check = _accept

    async def _find_due(self, page: int) -> list[CommitLookup]:
        size = commit_lookups._PAGE_ROWS
        return self._rows[page * size :][:size]

    async def _claim(self, lookup: CommitLookup) -> datetime:
        self.claimed.append(lookup.deployment_id)
        return datetime.now(UTC)

    async def _look_up(self, lookup: CommitLookup) -> None:
        await asyncio.Event().wait()


async def test_one_look_up_of_an_account_and_two_of_a_host_run_at_once() -> None:
    rows = [CommitLookup(n, 1, f"https://g{n}.example/x", "main", None) for n in range(10)]
    rows += [CommitLookup(n, n, "https://slow.example/x", "main", None) for n in range(10, 500)]
    rows += [CommitLookup(1000, 1000, "https://fair.example/x", "main", None)]
    lookups = _EndlessLookups(rows)
    try:
        await lookups.start_due()
        assert lookups.claimed == [0, 10, 11, 1000]
    finally:
        await end_tasks(*lookups._running)


async def test_pauses_between_failed_look_ups_grow_with_the_age_of_the_deployment(
    platform: Platform, repository: Path
) -> None:
    number = await _add_awaiting_deployment(platform, str(repository))
    lookups = CommitLookups(platform.sessions, "test", _accept)
    for age, tried, is_due in (
        (10, None, True),
        (10, 4, False),
        (10, 6, True),
        (30, 6, False),
        (30, 11, True),
        (600, 120, False),
        (600, 161, True),
        (60_000, 350, False),
        (60_000, 361, True),
    ):
        now = datetime.now(UTC)
        async with platform.sessions() as session, session.begin():
            await session.execute(
                update(Deployment)
                .where(Deployment.id == number)
                .values(
                    created_at=now - timedelta(minutes=age),
                    commit_looked_up_at=None if tried is None else now - timedelta(minutes=tried),
                )
            )
        assert [lookup.deployment_id for lookup in await lookups._find_due(0)] == [number] * is_due, (
            age,
            tried,
        )


def _add_large_commit(repository: Path, size: int) -> str:
    """Add a commit with a long, compressible message on a new branch."""
    git = ["git", "-C", str(repository)]
    text = subprocess.run([*git, "cat-file", "commit", "main"], check=True, capture_output=True).stdout
    command = [*git, "hash-object", "-t", "commit", "-w", "--stdin"]
    made = subprocess.run(command, input=text + b"a" * size, check=True, capture_output=True).stdout
    commit = made.decode().strip()
    subprocess.run([*git, "update-ref", "refs/heads/large", commit], check=True)
    return commit


async def test_a_commit_with_a_too_long_message_is_refused(repository: Path) -> None:
    with pytest.raises(CheckOutFailed, match="too large to be shown"):
        await _read(repository, _add_large_commit(repository, 100_000))


@pytest.mark.parametrize(
    ("head", "message", "subject", "author"),
    [
        (b"author Eve <e@e.example> 1 +0000", b"\n Fix\n  it\n \t\nbody\n", "Fix it", "Eve"),
        (b"author \xc3\x89ve <e@e> 1 +0000", b"\xff", "\ufffd", "\u00c9ve"),
        (b"author \xc9ve <e@e> 1 +0000\nencoding ISO-8859-1", b"\xe9t\xe9", "\u00e9t\u00e9", "\u00c9ve"),
        (b"author Eve <e@e> 1 +0000\nencoding punycode", b"Fix it", "Fix it", "Eve"),
        (
            b"author Eve <e@e> 1 +0000\ngpgsig -----BEGIN\n author Bob <b@b> 1 +0000\n -----END",
            b"",
            "",
            "Eve",
        ),
        (b"author <e@e> 1 +0000\nauthor Bob <b@b> 1 +0000", b"a" * 500, "a" * 200, ""),
        (b"committer Bob <b@b> 1 +0000", b"Fix it", "Fix it", ""),
    ],
)
def test_the_subject_and_the_author_are_read_from_the_commit(
    head: bytes, message: bytes, subject: str, author: str
) -> None:
    assert parse_commit(b"tree 0\n" + head + b"\n\n" + message) == (subject, author)


async def test_nothing_is_fetched_beyond_the_commit(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (repository / ".git" / "config").open("a") as config:
        config.write("[uploadpack]\nallowFilter = true\nallowAnySHA1InWant = true\n")
    served = repository.parent / "served"
    pack = repository.parent / "upload-pack"
    pack.write_text(f'#!/bin/sh\necho >> {served}\nexec git-upload-pack "$@"\n')
    pack.chmod(0o755)
    for name, value in (("COUNT", "1"), ("KEY_0", "remote.origin.uploadpack"), ("VALUE_0", str(pack))):
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    assert await _read(repository, _head(repository)) == ("Fix it", "Eve")
    assert served.read_text() == "\n"


async def test_no_folder_is_walked_or_removed_on_the_event_loop(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[tuple[str, bool]] = []

    def wrap(name: str, real: Callable[..., None]) -> Callable[..., None]:
        def run(*args: Any, **kwargs: Any) -> None:
            threads.append((name, threading.current_thread() is threading.main_thread()))
            real(*args, **kwargs)

        return run

    monkeypatch.setattr(bounded_fetch, "_check_size", wrap("check", bounded_fetch._check_size))
    monkeypatch.setattr(bounded_fetch.shutil, "rmtree", wrap("remove", shutil.rmtree))
    await _read(repository, _head(repository))
    await resolve_ref(str(repository), _head(repository)[:9], most_bytes=2**20)
    assert set(threads) == {("check", False), ("remove", False)}


async def test_many_branches_need_few_files(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = _head(repository)
    refs = "".join(f"{head} refs/heads/b{number:03}\n" for number in range(100))
    (repository / ".git" / "packed-refs").write_text(f"# pack-refs with: peeled fully-peeled sorted \n{refs}")
    monkeypatch.setattr(bounded_fetch, "_MAX_FILES", 20)
    assert await resolve_ref(str(repository), head[:9], most_bytes=2**20) == head
    monkeypatch.setattr(bounded_fetch, "_MAX_FILES", 2)
    with pytest.raises(CheckOutFailed, match="more than 2 files"):
        await resolve_ref(str(repository), head[:9], most_bytes=2**20)


async def test_git_has_a_memory_limit(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = _add_large_commit(repository, 24 * 1024**2)
    limited = tuple(part.replace(f"{512 * 1024}", f"{16 * 1024}") for part in run_git._LIMITED_SHELL)
    monkeypatch.setattr(run_git, "_LIMITED_SHELL", limited)
    with pytest.raises(CheckOutFailed, match="^Git needs more than"):
        await _read(repository, large)
    with pytest.raises(CheckOutFailed, match="^Git needs more than"):
        await resolve_ref(str(repository), _head(repository)[:9], most_bytes=1024**3)


async def test_the_search_for_an_abbreviated_commit_has_a_size_limit(repository: Path) -> None:
    with pytest.raises(CheckOutFailed, match="is larger than"):
        await resolve_ref(str(repository), _head(repository)[:9], most_bytes=0)
    assert await resolve_ref(str(repository), _head(repository)[:9], most_bytes=2**20) == _head(repository)
