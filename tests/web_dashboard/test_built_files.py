"""The committed files of the dashboard match their source, and its type check finds errors."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.engines import EngineMissing, skip_if_missing

_ROOT = Path(__file__).parents[2]
_DASHBOARD = _ROOT / "web_dashboard"
_SOURCE = _DASHBOARD / "source"
_PACKAGES = ("package.json", "package-lock.json")
_OLDEST_NODE = (20, 19)


def _packages() -> Path:
    """Return a folder with the npm packages of the lock file. Raises `EngineMissing`."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise EngineMissing("Node.js is not installed; on Debian: apt-get install nodejs npm")
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, timeout=20).stdout
    if tuple(int(part) for part in version.strip("v \n").split(".")[:2]) < _OLDEST_NODE:
        raise EngineMissing(f"Vite needs Node.js 20.19 or newer; this is {version.strip()}.")
    content = b"".join((_SOURCE / name).read_bytes() for name in _PACKAGES)
    folder = _ROOT / ".engines" / f"dashboard-{hashlib.sha256(content).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    for name in _PACKAGES:
        shutil.copy(_SOURCE / name, folder)
    if not (folder / "done").exists():
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
        if ended.returncode:
            raise EngineMissing(f"npm cannot install the dashboard's packages: {ended.stderr[-300:]}")
        (folder / "done").touch()
    return folder


@pytest.fixture(scope="module")
def checkout() -> Iterator[Path]:
    """Return a copy of the sources with a generated client. It is below the folder of the packages, where Node finds
    them."""
    with skip_if_missing():
        packages = _packages()
    with tempfile.TemporaryDirectory(prefix="run-", dir=packages) as run:
        folder = Path(run) / "source"
        shutil.copytree(_SOURCE, folder, ignore=shutil.ignore_patterns("node_modules", "generated"))
        made = _run(folder, "tools/generate.mjs")
        assert made.returncode == 0, made.stderr
        yield folder


def _run(folder: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script of the sources or of their packages."""
    modules = folder.parents[1] / "node_modules"
    path = script if script.startswith("tools/") else str(modules / script)
    command = ["node", path, *arguments]
    paths = {
        "PHAROS_PYTHON": sys.executable,
        "PHAROS_ROOT": str(_ROOT),
        "OUT_DIR": str(folder.parent / "built"),
    }
    environment = {**os.environ, **paths}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, env=environment)


def _read_files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _list_differences(built: dict[str, bytes], committed: dict[str, bytes]) -> Sequence[str]:
    return sorted(name for name in built.keys() | committed.keys() if built.get(name) != committed.get(name))


def test_committed_files_match_the_source(checkout: Path) -> None:
    built = _run(checkout, "vite/bin/vite.js", "build")
    assert built.returncode == 0, built.stderr
    differences = _list_differences(_read_files(checkout.parent / "built"), _read_files(_DASHBOARD / "built"))
    assert differences == [], (
        "Run `npm run generate && npm run build` in web_dashboard/source and commit `built`."
    )


def test_type_check_finds_a_planted_error(checkout: Path) -> None:
    planted = checkout / "src" / "Planted.svelte"
    planted.write_text(
        '<script lang="ts">\n'
        "  import { readProject } from '../generated/client/sdk.gen';\n"
        "  import { call } from './api/call';\n"
        "  const name = call(readProject({ path: { project: 'prj_1' } })).then((project) => project.nmae);\n"
        "</script>\n{#await name then text}{text}{/await}\n"
    )
    try:
        checked = _run(checkout, "svelte-check/bin/svelte-check", "--fail-on-warnings", "--output=machine")
    finally:
        planted.unlink()
    assert checked.returncode == 1, checked.stdout
    errors = [line for line in checked.stdout.splitlines() if " ERROR " in line]
    # The planted error is found, and no other one.
    assert len(errors) == 1 and "Planted.svelte" in errors[0] and "nmae" in errors[0], checked.stdout
