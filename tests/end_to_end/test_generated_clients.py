"""Clients that are generated from the served OpenAPI document work without a hand-written part."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import client_generators
from tests.support.engines import skip_if_missing
from tests.support.platform_process import PlatformProcess, platform_process

_TOURS = Path(client_generators.__file__).parent / "generated_clients"

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformProcess]:
    with platform_process(tmp_path_factory.mktemp("generated") / "data") as running:
        yield running


def _python(document: Path, folder: Path) -> list[str]:
    return [*client_generators.generate_python_client(document, folder), str(_TOURS / "tour.py")]


def _typescript(document: Path, folder: Path) -> list[str]:
    return client_generators.generate_typescript_client(document, _TOURS / "tour.ts", folder)


@pytest.mark.parametrize(("language", "generate"), [("python", _python), ("typescript", _typescript)])
def test_tour_with_a_generated_client(
    language: str, generate: Callable[[Path, Path], list[str]], platform: PlatformProcess, tmp_path: Path
) -> None:
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps(platform.request("GET", "/api/openapi.json").json))
    with skip_if_missing():
        command = generate(document, tmp_path)
    credentials = platform.credentials
    ended = subprocess.run(
        [*command, credentials["base_url"], credentials["api_token"]],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin:/usr/local/bin"},
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {
        "account": "my-account",
        "environment": [f"{language}-tour", "staging", "running"],
        "variables": ["APP_ENV"],
        "changes": [200, 412],
        "problem": "/problems/precondition-failed",
        "heartbeats": [["backup", "new"]],
        "ingest_key": "phr_ing_",
        "goal": "Sale",
        "refused": [409, "/problems/conflict"],
        "gone": "/problems/not-found",
    }
