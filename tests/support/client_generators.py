"""Generators of API clients, installed once from PyPI and npm into `.engines/`."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.engines import EngineMissing

_SOURCE = Path(__file__).parent / "generated_clients"
_ENGINES = Path(__file__).parents[2] / ".engines"
_SECONDS = 300


def generate_python_client(document: Path, folder: Path) -> list[str]:
    """Generate the package `pharos_client` into `folder`; return the command of the Python that has the packages which
    it imports.

    Raises `EngineMissing` if the generator cannot be installed."""
    python = _install_python_generator()
    generator = python.with_name("openapi-python-client")
    _run(
        [
            str(generator),
            "generate",
            "--path",
            str(document),
            "--meta",
            "none",
            "--output-path",
            "pharos_client",
        ],
        folder,
    )
    return [str(python)]


def generate_typescript_client(document: Path, program: Path, folder: Path) -> list[str]:
    """Generate a client into `folder`, compile it with the program that uses it, and return the command that runs this
    program. Raises `EngineMissing` if the generator cannot be installed."""
    engine = _install_typescript_generator()
    (folder / "node_modules").symlink_to(engine / "node_modules")
    shutil.copy(_SOURCE / "package.json", folder)
    shutil.copy(program, folder / "tour.ts")
    bin_ = engine / "node_modules" / ".bin"
    _run([str(bin_ / "openapi-ts"), "--input", str(document), "--output", "client"], folder)
    _run(
        [
            str(bin_ / "tsc"),
            "--strict",
            "--target",
            "es2022",
            "--module",
            "commonjs",
            "--moduleResolution",
            "node10",
            "--lib",
            "es2022,dom,dom.iterable",
            "--outDir",
            "built",
            "tour.ts",
        ],
        folder,
    )
    return ["node", str(folder / "built" / "tour.js")]


def _install_python_generator() -> Path:
    requirements = _SOURCE / "requirements.txt"
    folder = _ENGINES / f"generated-python-{_digest(requirements)}"
    python = folder / "bin" / "python"
    if not (folder / "done").exists():
        uv = Path(sys.executable).with_name("uv")
        _install([str(uv), "venv", "--quiet", "--clear", str(folder)], _SOURCE)
        _install(
            [
                str(uv),
                "pip",
                "install",
                "--quiet",
                "--require-hashes",
                "--python",
                str(python),
                "-r",
                str(requirements),
            ],
            _SOURCE,
        )
        (folder / "done").touch()
    return python


def _install_typescript_generator() -> Path:
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise EngineMissing("Node.js is not installed; on Debian: apt-get install nodejs npm")
    files = (_SOURCE / "package.json", _SOURCE / "package-lock.json")
    folder = _ENGINES / f"generated-typescript-{_digest(*files)}"
    if not (folder / "done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copy(file, folder)
        _install(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], folder)
        (folder / "done").touch()
    return folder


def _digest(*files: Path) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def _run(command: list[str], folder: Path) -> None:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS)
    assert ended.returncode == 0, f"{' '.join(command[:3])}: {(ended.stderr or ended.stdout)[-2000:]}"


def _install(command: list[str], folder: Path) -> None:
    """Run an installer. Raises `EngineMissing`, because the network may be missing."""
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS)
    if ended.returncode:
        raise EngineMissing(f"{' '.join(command[:3])} failed: {(ended.stderr or ended.stdout)[-300:]}")
