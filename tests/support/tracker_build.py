"""The tracker's sources and build, in a copy under `.engines/` with what npm brings for them."""

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
    """A folder with the tracker as it is now, ready to be built. Raises `EngineMissing`."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise EngineMissing("Node.js is not here. On Debian: apt-get install nodejs npm")
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
            raise EngineMissing(f"npm cannot bring what builds the tracker: {ended.stderr[-300:]}")
        (folder / "done").touch()
    return folder


def check_build(folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run the build's comparison in such a copy."""
    command = ["node", "build.mjs", "--check"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=180)


if __name__ == "__main__":
    try:
        tracker_copy()
    except EngineMissing as error:
        sys.exit(str(error))
