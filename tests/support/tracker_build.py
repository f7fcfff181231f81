"""A copy of the tracker's sources and build under `.engines/`, with the npm packages of the build."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.engines import EngineMissing

TRACKER = Path(__file__).parents[2] / "ingest_edge" / "tracker"
_ENGINES = Path(__file__).parents[2] / ".engines"
_PACKAGES = ("package.json", "package-lock.json")


def tracker_copy() -> Path:
    """Return a folder with the current tracker, ready to be built. Raises `EngineMissing`."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise EngineMissing("Node.js is not installed; on Debian: apt-get install nodejs npm")
    content = b"".join((TRACKER / name).read_bytes() for name in _PACKAGES)
    folder = _ENGINES / f"tracker-{hashlib.sha256(content).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*_PACKAGES, "build.mjs"):
        shutil.copy(TRACKER / name, folder)
    for name in ("source", "built"):
        shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(TRACKER / name, folder / name)
    if not (folder / "done").exists():
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200)
        if ended.returncode:
            raise EngineMissing(
                f"npm cannot install the packages of the tracker's build: {ended.stderr[-300:]}"
            )
        (folder / "done").touch()
    return folder


def check_build(folder: Path) -> "subprocess.CompletedProcess[str]":
    """Compare the built files in a copy with a new build."""
    command = ["node", "build.mjs", "--check"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=180)


if __name__ == "__main__":
    try:
        tracker_copy()
    except EngineMissing as error:
        sys.exit(str(error))
