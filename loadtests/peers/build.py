"""Builds the peers once, into `.engines/`: the OpenTelemetry Collector, and the handlers in Go and Rust."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.support.engines import EngineMissing

_SOURCE = Path(__file__).parent
_ENGINES = Path(__file__).parents[2] / ".engines"
_BUILDER = "go.opentelemetry.io/collector/cmd/builder@v0.165.0"
"""The builder program of the Collector. `collector/builder.yaml` pins the versions of the components."""
_SECONDS = 3600


def build_collector() -> Path:
    """Build the Collector if it is missing, and return its program. Raises `EngineMissing`."""

    def build(folder: Path) -> None:
        command = ["go", "run", _BUILDER, "--config", str(_SOURCE / "collector/builder.yaml")]
        _run(command, folder, {"GOFLAGS": "-mod=mod"})

    return _build_once("collector", ["go"], build, "built/otelcol-peer")


def build_go() -> Path:
    """Build the handler in Go if it is missing, and return its program. Raises `EngineMissing`."""
    return _build_once(
        "go",
        ["go"],
        lambda folder: _run(["go", "build", "-o", str(folder / "peer"), "."], _SOURCE / "go"),
        "peer",
    )


def build_rust() -> Path:
    """Build the handler in Rust if it is missing, and return its program. Raises `EngineMissing`."""

    def build(folder: Path) -> None:
        _run(["cargo", "build", "--release", "--locked", "--target-dir", str(folder)], _SOURCE / "rust")

    # librdkafka is compiled from its sources, which needs these tools.
    return _build_once("rust", ["cargo", "make", "cc"], build, "release/peer")


def _build_once(name: str, tools: Sequence[str], build: Callable[[Path], None], program: str) -> Path:
    digest = hashlib.sha256()
    for file in sorted(path for path in (_SOURCE / name).rglob("*") if path.is_file()):
        digest.update(file.read_bytes())
    folder = _ENGINES / f"peer-{name}-{digest.hexdigest()[:12]}"
    built = folder / program
    if not built.exists():
        if missing := [tool for tool in tools if shutil.which(tool) is None]:
            raise EngineMissing(f"The {name} peer cannot be built: {', '.join(missing)} is not installed.")
        folder.mkdir(parents=True, exist_ok=True)
        build(folder)
    return built


def _run(command: Sequence[str], folder: Path, more: Mapping[str, str] | None = None) -> None:
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(more or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_SECONDS,
    )
    if ended.returncode:
        raise EngineMissing(f"`{' '.join(command[:3])}` failed: {ended.stdout[-500:]}")
