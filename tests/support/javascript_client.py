"""The JavaScript client, built into `.engines/`, and applications in Node.js that use it."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.engines import EngineMissing

CLIENT = Path(__file__).parents[2] / "clients" / "javascript"
_PACKAGES = Path(__file__).with_name("javascript_client")
_PACKAGE_FILES = ("package.json", "package-lock.json")
_ENGINES = Path(__file__).parents[2] / ".engines"
_CONFIGURATION = ("package.json", "tsconfig.json", "tsconfig.cjs.json", "mark_commonjs.mjs")


@dataclass(frozen=True)
class JavascriptClient:
    """`build` is the built package, `modules` the folder of the npm packages that applications use."""

    build: Path
    modules: Path

    def write_app(self, folder: Path, files: Mapping[str, str]) -> None:
        """Write an application that has the client and all npm packages installed."""
        installed = folder / "node_modules"
        if not installed.exists():
            installed.mkdir(parents=True)
            for package in self.modules.iterdir():
                (installed / package.name).symlink_to(package)
            (installed / "pharos-client").symlink_to(self.build)
            (folder / "package.json").write_text('{"private": true}\n')
        for name, text in files.items():
            (folder / name).write_text(text)


def node_environment(**variables: str) -> dict[str, str]:
    """Return the environment of an application: that of the tests without settings of Pharos and OpenTelemetry."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PHAROS_", "OTEL_", "NODE_"))
    }
    return {**inherited, **variables}


def run_node(
    folder: Path, *arguments: str, timeout: float = 120, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Run Node.js in the folder of an application until it ends."""
    return subprocess.run(
        ["node", *arguments],
        cwd=folder,
        env=node_environment(**variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def javascript_client() -> JavascriptClient:
    """Return the client, built from the sources of this folder. Raises `EngineMissing`."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise EngineMissing("Node.js is not installed; on Debian: apt-get install nodejs npm")
    packages = _ENGINES / f"javascript-client-{_digest(_PACKAGES / name for name in _PACKAGE_FILES)}"
    packages.mkdir(parents=True, exist_ok=True)
    with open(packages / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (packages / "done").exists():
            _install(packages)
        return JavascriptClient(_build(packages), packages / "node_modules")


def _install(packages: Path) -> None:
    for name in _PACKAGE_FILES:
        shutil.copy(_PACKAGES / name, packages)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    ended = subprocess.run(command, cwd=packages, capture_output=True, text=True, timeout=400)
    if ended.returncode:
        raise EngineMissing(
            f"npm cannot install what the JavaScript client's tests use: {ended.stderr[-300:]}"
        )
    (packages / "done").touch()


def _build(packages: Path) -> Path:
    sources = [path for name in ("src", "test") for path in sorted((CLIENT / name).iterdir())]
    build = packages / f"build-{_digest([*sources, *(CLIENT / name for name in _CONFIGURATION)])}"
    if (build / "done").exists():
        return build
    for former in packages.glob("build-*"):
        # Builds of other working trees may be in use; only unfinished ones are removed.
        if not (former / "done").exists():
            shutil.rmtree(former)
    build.mkdir()
    for name in _CONFIGURATION:
        shutil.copy(CLIENT / name, build)
    for name in ("src", "test"):
        shutil.copytree(CLIENT / name, build / name)
    ended = subprocess.run(
        ["npm", "run", "--silent", "build"], cwd=build, capture_output=True, text=True, timeout=300
    )
    if ended.returncode:
        raise AssertionError(f"the JavaScript client does not build:\n{ended.stdout}{ended.stderr}")
    (build / "done").touch()
    return build


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


if __name__ == "__main__":
    try:
        javascript_client()
    except EngineMissing as error:
        sys.exit(str(error))
