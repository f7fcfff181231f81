"""axe-core, which finds accessibility faults in a page. It is installed once into `.engines/`."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.engines import EngineMissing

_SOURCE = Path(__file__).parent / "axe"
_ENGINES = Path(__file__).parents[2] / ".engines"
_PACKAGES = ("package.json", "package-lock.json")


def read_axe() -> str:
    """Return the script of axe-core. Raises `EngineMissing`."""
    content = b"".join((_SOURCE / name).read_bytes() for name in _PACKAGES)
    folder = _ENGINES / f"axe-{hashlib.sha256(content).hexdigest()[:12]}"
    if not (folder / "done").exists():
        _install(folder)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def _install(folder: Path) -> None:
    if shutil.which("npm") is None:
        raise EngineMissing("npm is not installed; on Debian: apt-get install nodejs npm")
    folder.mkdir(parents=True, exist_ok=True)
    for name in _PACKAGES:
        shutil.copy(_SOURCE / name, folder)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200)
    if ended.returncode:
        raise EngineMissing(f"npm cannot install axe-core: {ended.stderr[-300:]}")
    (folder / "done").touch()


if __name__ == "__main__":
    try:
        read_axe()
    except EngineMissing as error:
        sys.exit(str(error))
