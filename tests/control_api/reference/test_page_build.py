"""The committed files of the page are those of the package in its lock file."""

import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.support.engines import EngineMissing, skipping

_ROOT = Path(__file__).parents[3]
_PAGE = _ROOT / "control_api" / "reference" / "page"
_PACKAGES = ("package.json", "package-lock.json")


def _page_copy() -> Path:
    """A folder with the page as it is now and the package beside it. Raises `EngineMissing`."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise EngineMissing("Node.js is not here. On Debian: apt-get install nodejs npm")
    content = b"".join((_PAGE / name).read_bytes() for name in _PACKAGES)
    folder = _ROOT / ".engines" / f"reference-page-{hashlib.sha256(content).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*_PACKAGES, "build.mjs"):
        shutil.copy(_PAGE / name, folder)
    shutil.rmtree(folder / "built", ignore_errors=True)
    shutil.copytree(_PAGE / "built", folder / "built")
    if not (folder / "done").exists():
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200)
        if ended.returncode:
            raise EngineMissing(f"npm cannot bring the page's package: {ended.stderr[-300:]}")
        (folder / "done").touch()
    return folder


def test_what_is_committed_is_what_the_package_gives() -> None:
    with skipping():
        folder = _page_copy()
    command = ["node", "build.mjs", "--check"]
    checked = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stderr
    (folder / "built" / "NOTICE").write_text("another")
    checked = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 1
    assert "built/NOTICE is not what the package gives" in checked.stderr
