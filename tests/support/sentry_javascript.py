"""The Sentry SDKs for Node.js and for browsers, installed once from npm into `.engines/`."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.engines import EngineMissing

_SOURCE = Path(__file__).parent / "sentry_js"
_ENGINES = Path(__file__).parents[2] / ".engines"
_FILES = ("package.json", "package-lock.json", "app.js", "browser.js")
_BUNDLE = "bundle.js"


def sentry_javascript_app() -> list[str]:
    """Return the command that runs the application in Node.js. Raises `EngineMissing`."""
    return ["node", str(_installed() / "app.js")]


def sentry_browser_script() -> Path:
    """Return the script of a page, with the SDK for browsers in it. Raises `EngineMissing`."""
    return _installed() / _BUNDLE


def _installed() -> Path:
    """Return the folder of the applications, with the SDKs installed. Raises `EngineMissing`."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise EngineMissing("Node.js is not installed; on Debian: apt-get install nodejs npm")
    content = b"".join((_SOURCE / name).read_bytes() for name in _FILES)
    folder = _ENGINES / f"sentry-js-{hashlib.sha256(content).hexdigest()[:12]}"
    if not (folder / "done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name in _FILES:
            shutil.copy(_SOURCE / name, folder)
        bundler = str(folder / "node_modules" / ".bin" / "esbuild")
        for command in (
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
            [bundler, "browser.js", "--bundle", "--log-level=error", f"--outfile={_BUNDLE}"],
        ):
            ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200)
            if ended.returncode:
                raise EngineMissing(f"npm cannot install the Sentry SDKs: {ended.stderr[-300:]}")
        (folder / "done").touch()
    return folder


if __name__ == "__main__":
    try:
        sentry_javascript_app()
    except EngineMissing as error:
        sys.exit(str(error))
