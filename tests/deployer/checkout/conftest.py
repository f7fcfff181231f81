"""Fixtures: real repositories, a host that serves them over HTTPS, and a home whose Git configuration trusts it."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.deployer.checkout.git_host import GitHost, running_git_host
from tests.deployer.checkout.owner import Owner
from tests.support.reaper import run_folder

_WHO = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.com"}
_WHO |= {name.replace("AUTHOR", "COMMITTER"): value for name, value in _WHO.items()}


@dataclass(frozen=True)
class Work:
    """A repository to commit in, and the bare repository that commits are pushed to."""

    folder: Path
    bare: Path

    @property
    def url(self) -> str:
        return str(self.bare)

    def git(self, *arguments: str, stdin: str = "") -> str:
        run = subprocess.run(
            ["git", *arguments],
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **_WHO},
            input=stdin,
            capture_output=True,
            text=True,
        )
        assert run.returncode == 0, run.stderr
        return run.stdout.strip()

    def commit(self, **files: str) -> str:
        """Write files, commit and push everything, and return the commit. `a__b` is the file a.b."""
        for name, text in files.items():
            path = self.folder / name.replace("__", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "--all", "--force")
        self.git("commit", "--quiet", "--allow-empty", "--message", "a change")
        return self.push()

    def push(self) -> str:
        self.git("push", "--quiet", "--force", "origin", "HEAD", "--tags")
        return self.git("rev-parse", "HEAD")

    def link(self, path: str, target: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).symlink_to(target)


def make_work(root: Path, name: str, object_format: str = "sha1") -> Work:
    work = Work(root / name, root / "hosted" / f"{name}.git")
    work.folder.mkdir()
    for options, folder in (("--bare", work.bare), ("", work.folder)):
        command = f"git init --quiet --initial-branch=main --object-format={object_format} {options} {folder}"
        subprocess.run(command.split(), check=True)
    work.git("remote", "add", "origin", str(work.bare))
    work.git("--git-dir", str(work.bare), "config", "receive.denyDeleteCurrent", "ignore")
    return work


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return make_work(tmp_path, "shop")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the empty home of Pharos' user and of the build's user."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    # Settings of the machine that runs the tests.
    for name in os.environ:
        if name.startswith(("GIT_", "SSL_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    return home


@pytest.fixture
def host(tmp_path: Path, home: Path) -> Iterator[GitHost]:
    """Serve `hosted/` over HTTPS, with a certificate that `home` and the machine trust."""
    with running_git_host(tmp_path / "hosted", tmp_path) as host:
        for path in (home / ".gitconfig", tmp_path / "gitconfig"):
            path.write_text(f"[http]\n\tsslCAInfo = {host.certificate}\n")
        yield host


@pytest.fixture
def owner(tmp_path: Path, home: Path) -> Owner:
    # Other users cannot enter pytest's folders.
    pytests = [folder for folder in tmp_path.parents if run_folder() in folder.parents]
    for folder in (tmp_path, *pytests, home):
        folder.chmod(0o755)
    folder = tmp_path / "revision"
    folder.mkdir()
    return Owner(folder, home)
