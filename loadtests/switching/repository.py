"""Makes the Git repository of the deployed application. Each version is a commit."""

import json
import subprocess
from pathlib import Path
from typing import Literal

Fault = Literal["", "unhealthy", "ends"]

_APP = Path(__file__).with_name("deployed_app.py")
_WORKFLOW = """\
version: 1
build: {steps: ["python3 -m py_compile app.py"]}
processes:
  web: {command: "exec python3 app.py", health: {path: /healthz, timeout_seconds: %d}}
"""
_HEALTH_SECONDS = 30
_FAILING_HEALTH_SECONDS = 3


class Repository:
    """A bare repository in `folder`, and a work tree next to it."""

    def __init__(self, folder: Path) -> None:
        self.bare = folder / "shop.git"
        self._tree = folder / "shop"
        self._count = 0
        subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", self.bare], check=True)
        subprocess.run(["git", "clone", "--quiet", self.bare, self._tree], check=True, capture_output=True)
        self._git("symbolic-ref", "HEAD", "refs/heads/main")

    def commit(self, fault: Fault = "") -> str:
        """Commit the next version and push it to main. Return the name of the version."""
        self._count += 1
        version = f"v{self._count}"
        seconds = _FAILING_HEALTH_SECONDS if fault == "unhealthy" else _HEALTH_SECONDS
        (self._tree / "app.py").write_text(_APP.read_text())
        (self._tree / "pharos.yaml").write_text(_WORKFLOW % seconds)
        (self._tree / "release.json").write_text(json.dumps({"version": version, "fault": fault}))
        self._git("add", "--all")
        self._git("commit", "--quiet", "--message", version)
        self._git("push", "--quiet", "origin", "main")
        return version

    def _git(self, *arguments: str) -> None:
        identity = ("-c", "user.name=Load", "-c", "user.email=load@example.org")
        subprocess.run(["git", "-C", self._tree, *identity, *arguments], check=True, capture_output=True)
