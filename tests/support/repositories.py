"""Bare Git repositories, to which tests add commits without a work tree."""

import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    target: str


Files = Mapping[str, str | bytes | Link]
"""The contents of a revision by path."""


class Repository:
    """A new bare repository."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self._git("init", "--quiet", "--bare", "--initial-branch=main", str(path))

    def commit(
        self, files: Files, branch: str = "main", *, submodules: Mapping[str, str] | None = None
    ) -> str:
        """Commit exactly these files to the branch; return the SHA. `submodules` are revisions by path."""
        with tempfile.TemporaryDirectory() as folder:
            for name, content in files.items():
                _write(Path(folder, "tree", name), content)
            index = {"GIT_INDEX_FILE": f"{folder}/index", "GIT_WORK_TREE": f"{folder}/tree"}
            self._git("add", "--all", "--force", **index)
            for path, revision in (submodules or {}).items():
                self._git("update-index", "--add", "--cacheinfo", f"160000,{revision},{path}", **index)
            tree = self._git("write-tree", **index)
        tip = self._git("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")
        revision = self._git("commit-tree", tree, "-m", "Change", *(("-p", tip) if tip else ()))
        self._git("update-ref", f"refs/heads/{branch}", revision)
        return revision

    def tag(self, name: str, revision: str) -> None:
        """Add an annotated tag."""
        self._git("tag", "--annotate", "--message", name, name, revision)

    def _git(self, *arguments: str, **variables: str) -> str:
        done = subprocess.run(
            ["git", *arguments],
            env={**os.environ, **_IDENTITY, "GIT_DIR": str(self.path), **variables},
            cwd=variables.get("GIT_WORK_TREE", self.path),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout.strip()


def _write(path: Path, content: str | bytes | Link) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, Link):
        path.symlink_to(content.target)
    elif isinstance(content, str):
        path.write_text(content)
    else:
        path.write_bytes(content)
