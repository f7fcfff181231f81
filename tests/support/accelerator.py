"""Builds the accelerator once, into `.engines/`.

`python -m tests.support.accelerator` (`make accelerator`) also installs it into this Python's environment.
"""

import fcntl
import hashlib
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import cast

from ingest_edge.accelerator import MODULE, Accelerator
from tests.support.engines import EngineMissing

_ROOT = Path(__file__).parents[2]
_SOURCE = _ROOT / "accelerator"
_ENGINES = _ROOT / ".engines"
_FILE = f"{MODULE}.abi3.so"
_SECONDS = 900


def build_accelerator() -> Path:
    """Return the built extension module. Raises `EngineMissing`."""
    digest = hashlib.sha256()
    for file in sorted([*_SOURCE.glob("Cargo.*"), *_SOURCE.glob("*.rs"), *_SOURCE.rglob("src/**/*.rs")]):
        digest.update(file.read_bytes())
    built = _ENGINES / f"accelerator-{digest.hexdigest()[:12]}" / _FILE
    if built.exists():
        return built
    if shutil.which("cargo") is None:
        raise EngineMissing("The accelerator needs Rust (cargo) to be built: see https://rustup.rs")
    target = _ENGINES / "accelerator-target"
    target.mkdir(parents=True, exist_ok=True)
    # Another process may build other sources into the same folder.
    with (target / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            _run_cargo(target)
            built.parent.mkdir(exist_ok=True)
            partial = built.with_suffix(".partial")
            shutil.copy(_built_library(target), partial)
            partial.rename(built)
    return built


def _run_cargo(target: Path) -> None:
    ended = subprocess.run(
        ["cargo", "build", "--release", "--locked", "--target-dir", str(target)],
        cwd=_SOURCE,
        env={**os.environ, "PYO3_PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_SECONDS,
    )
    if ended.returncode:
        raise EngineMissing(f"cargo cannot build the accelerator: {ended.stdout[-1000:]}")


def _built_library(target: Path) -> Path:
    suffix = "dylib" if sys.platform == "darwin" else "so"
    return target / "release" / f"lib{MODULE}.{suffix}"


def load_built(path: Path) -> Accelerator:
    """Return the extension module in this file, without installing it."""
    loader = importlib.machinery.ExtensionFileLoader(MODULE, str(path))
    spec = importlib.util.spec_from_file_location(MODULE, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return cast(Accelerator, module)


def main() -> None:
    """Build and install. Exit with the status 1 and the reason if that is not possible."""
    try:
        built = build_accelerator()
    except EngineMissing as error:
        sys.exit(f"{error}\nPharos works without it: Python validates request bodies.")
    installed = Path(sysconfig.get_path("platlib")) / _FILE
    # A running edge keeps the old file.
    partial = installed.with_suffix(".partial")
    shutil.copy(built, partial)
    partial.rename(installed)
    print(f"Installed {installed}. Processes that start from now on use it; `pharos doctor` shows that.")


if __name__ == "__main__":
    main()
