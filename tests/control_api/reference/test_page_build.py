"""The committed files of the page match the package in its lock file."""

import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.support.engines import EngineMissing, skip_if_missing

_ROOT = Path(__file__).parents[3]
_PAGE = _ROOT / "control_api" / "reference" / "page"
_PACKAGES = ("package.json", "package-lock.json")


def _package() -> Path:
    """Return a folder with the npm packages of the page. Raises `EngineMissing`."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise EngineMissing("Node.js is not installed; on Debian: apt-get install nodejs npm")
    content = b"".join((_PAGE / name).read_bytes() for name in _PACKAGES)
    folder = _ROOT / ".engines" / f"reference-page-{hashlib.sha256(content).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    for name in _PACKAGES:
        shutil.copy(_PAGE / name, folder)
    if not (folder / "done").exists():
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200)
        if ended.returncode:
            raise EngineMissing(f"npm cannot install the page's package: {ended.stderr[-300:]}")
        (folder / "done").touch()
    return folder


def _page_copy(folder: Path) -> None:
    """Return a new folder with a copy of the page and its package. Raises `EngineMissing`."""
    (folder / "node_modules").symlink_to(_package() / "node_modules")
    shutil.copy(_PAGE / "build.mjs", folder)
    shutil.copytree(_PAGE / "built", folder / "built")


def test_committed_files_match_the_package(tmp_path: Path) -> None:
    with skip_if_missing():
        _page_copy(tmp_path)
    command = ["node", "build.mjs", "--check"]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert checked.returncode == 0, checked.stderr
    (tmp_path / "built" / "NOTICE").write_text("another")
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert checked.returncode == 1
    assert "built/NOTICE is not what the package gives" in checked.stderr
