"""The sample Git repository of a first start."""

import json
import logging
import os
import stat
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete

from control_domain.database.engine import Sessions, open_sessions
from control_domain.first_account.account import ensure_first_account
from control_domain.sealing import SealingKeys
from control_domain.tables.repositories import Repository
from control_domain.tables.webhooks import SealedWebhookSecret
from control_domain.workflows.document import PullRequests
from control_domain.workflows.read_workflow import read_workflow
from pipeline_contracts.settings import Settings
from tests.support.accounts import migrated
from wiring.embedded import sample_repository
from wiring.embedded.sample_repository import ensure_sample_repository

_KEYS = SealingKeys.read("k" * 43)


@dataclass(frozen=True)
class FirstStart:
    """A data folder with an account, before the sample repository is created."""

    data: Path
    sessions: Sessions
    credentials: dict[str, Any]

    @property
    def repository(self) -> Path:
        return self.data / "repository.git"

    async def ensure(self, **more: Any) -> dict[str, Any]:
        return await ensure_sample_repository(self.sessions, _KEYS, {**self.credentials, **more}, self.data)

    def git(self, *arguments: str) -> str:
        """Return the output of git in the repository."""
        done = subprocess.run(
            ["git", f"--git-dir={self.repository}", *arguments], capture_output=True, text=True, check=True
        )
        return done.stdout

    def written(self) -> dict[str, Any]:
        written: dict[str, Any] = json.loads((self.data / "credentials.json").read_text())
        return written


@pytest.fixture
async def first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FirstStart]:
    # Git times out after 20 s, which is too short on a loaded machine.
    monkeypatch.setattr(sample_repository, "_GIT_SECONDS", 120)
    data = tmp_path / "data"
    data.mkdir()
    async with migrated(f"sqlite+aiosqlite:///{tmp_path}/control.sqlite") as engine:
        sessions = open_sessions(engine)
        made = await ensure_first_account(sessions, Settings(), data / "credentials.json", "http://x/api")
        yield FirstStart(data, sessions, made)


async def test_sample_is_a_bare_repository_with_an_application(first: FirstStart) -> None:
    await first.ensure()
    assert first.git("rev-parse", "--is-bare-repository") == "true\n"
    assert first.git("symbolic-ref", "HEAD") == "refs/heads/main\n"
    assert first.git("ls-tree", "-r", "--format=%(objectmode) %(path)", "main").splitlines() == [
        "100644 index.html",
        "100644 pharos.yaml",
    ]
    names = first.git("log", "--format=%an <%ae> %cn <%ce>", "main").splitlines()
    assert names == ["Pharos <pharos@localhost> Pharos <pharos@localhost>"]
    assert "<h1>" in first.git("show", "main:index.html")
    first.git("fsck", "--strict")


async def test_pushes_to_the_sample_deploy_to_the_first_environment(first: FirstStart) -> None:
    await first.ensure()
    document = read_workflow(first.git("show", "main:pharos.yaml"))
    assert document.triggers.push == {"main": "production"}
    assert document.triggers.pull_requests == PullRequests("production", "destroy")
    assert document.triggers.skip == "[skip deploy]"
    assert [*document.processes] == ["web"]


async def test_webhook_secret_is_in_the_private_credentials(first: FirstStart) -> None:
    whole = await first.ensure()
    assert set(whole) - set(first.credentials) == {"repository"}
    assert set(whole["repository"]) == {"id", "kind", "secret"}
    assert first.written() == whole
    assert list(whole) == list(first.written())
    assert stat.S_IMODE((first.data / "credentials.json").stat().st_mode) == 0o600


async def test_later_start_changes_neither_files_nor_credentials(first: FirstStart) -> None:
    whole = await first.ensure()
    revision = first.git("rev-parse", "main")
    before = (first.data / "credentials.json").stat()
    assert await first.ensure(**whole) == whole
    assert first.git("rev-parse", "main") == revision
    # A replaced file would have another inode.
    assert (first.data / "credentials.json").stat().st_ino == before.st_ino


async def test_start_completes_after_a_killed_start(first: FirstStart) -> None:
    half = first.repository.with_name("repository.git.new")
    half.mkdir()
    (half / "HEAD").write_text("half a line")
    assert "repository" in await first.ensure()
    assert sorted(os.listdir(first.data)) == ["credentials.json", "repository.git"]
    assert first.git("rev-parse", "--verify", "main^{commit}")


async def test_start_uses_the_repository_of_a_killed_start(first: FirstStart) -> None:
    await first.ensure()
    revision = first.git("rev-parse", "main")
    async with first.sessions() as session, session.begin():
        await session.execute(delete(SealedWebhookSecret))
        await session.execute(delete(Repository))
    assert "repository" in await first.ensure()
    assert first.git("rev-parse", "main") == revision


async def test_git_settings_of_the_user_are_ignored(
    first: FirstStart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("reference-transaction", "post-update"):
        (hooks / name).write_text("#!/bin/sh\nexit 1\n")
        (hooks / name).chmod(0o755)
    (tmp_path / ".gitconfig").write_text(
        f"[init]\n\tdefaultBranch = trunk\n\ttemplateDir = {tmp_path}\n[core]\n\thooksPath = {hooks}\n"
    )
    with monkeypatch.context() as patch:
        patch.setenv("HOME", str(tmp_path))
        patch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / ".gitconfig"))
        patch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
        patch.setenv("GIT_DEFAULT_HASH", "sha256")
        await first.ensure()
    assert first.git("symbolic-ref", "HEAD") == "refs/heads/main\n"
    assert first.git("rev-parse", "--show-object-format") == "sha1\n"
    assert first.git("rev-parse", "--verify", "main^{commit}")
    assert not (first.repository / "hooks").exists()
    assert not (tmp_path / "elsewhere").exists()


def _no_git(bin_folder: Path) -> None:
    """Leave the PATH empty."""


def _failing_git(bin_folder: Path) -> None:
    (bin_folder / "git").write_text("#!/bin/sh\necho 'fatal: no space left' >&2\nexit 128\n")
    (bin_folder / "git").chmod(0o755)


@pytest.mark.parametrize(
    ("prepare", "told"), [(_no_git, "'git'"), (_failing_git, "fatal: no space left")], ids=["none", "failing"]
)
async def test_start_without_git_logs_one_warning(
    first: FirstStart,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    prepare: Any,
    told: str,
) -> None:
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    prepare(bin_folder)
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setenv("PATH", str(bin_folder))
        assert await first.ensure() == first.credentials
    (record,) = [record for record in caplog.records if record.name == sample_repository.__name__]
    assert record.levelname == "WARNING" and told in record.getMessage()
    assert first.written() == first.credentials
    assert os.listdir(first.data) == ["credentials.json"]
    # Once Git is available, the repository is created.
    assert "repository" in await first.ensure()


async def test_folder_without_valid_url_gets_no_repository(
    first: FirstStart, caplog: pytest.LogCaptureFixture
) -> None:
    odd = first.data / "back\\slash"
    odd.mkdir()
    with caplog.at_level(logging.WARNING):
        told = await ensure_sample_repository(first.sessions, _KEYS, first.credentials, odd)
    assert told == first.credentials
    assert "no backslashes" in caplog.text
    assert os.listdir(odd) == []
