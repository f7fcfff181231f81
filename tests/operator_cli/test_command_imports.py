"""The imports of commands: each package below costs 50 to 400 ms of CPU at every call."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

_SAMPLE = Path(__file__).parents[2] / "wiring" / "embedded" / "sample_application" / "pharos.yaml"
# Runs one command and prints the names of all modules that are imported then.
_SCRIPT = """
import json, os, sys
from operator_cli.main import main
try:
    main()
except SystemExit:
    pass
os.write(3, json.dumps(sorted(sys.modules)).encode())
"""
_SERVERS = {"fastapi", "starlette", "uvicorn", "pydantic", "prometheus_client"}
_ENGINES = {
    "chdb",
    "clickhouse_connect",
    "sqlalchemy",
    "alembic",
    "aiokafka",
    "redis",
    "asyncpg",
    "aiosqlite",
}
_HEAVY = _SERVERS | _ENGINES | {"aiohttp", "cryptography", "opentelemetry", "importlib.metadata"}


@pytest.fixture
def unreachable(tmp_path: Path) -> Path:
    """A data folder whose platform does not run."""
    # Nothing listens on port 9.
    credentials = {"base_url": "http://127.0.0.1:9/api", "ingest_key": "key"}
    (tmp_path / "credentials.json").write_text(json.dumps(credentials))
    return tmp_path


def _imported(arguments: list[str], folder: Path, **environment: str) -> set[str]:
    out = folder / "modules.json"
    command = [sys.executable, "-c", _SCRIPT, *arguments]
    shell = ["sh", "-c", 'exec "$@" 3>"$0"', str(out), *command]
    subprocess.run(
        shell, check=True, capture_output=True, cwd=folder, env={"PATH": "/bin:/usr/bin", **environment}
    )
    return set(json.loads(out.read_text()))


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (["--help"], _HEAVY | {"asyncio", "rich", "ssl"}),
        (["receipt", "rcp_1", "--data", "."], _HEAVY | {"asyncio", "rich"}),
        (["receipt", "rcp_1", "--data", "missing"], _HEAVY | {"asyncio", "rich"}),
        (["project", "list", "--data", "."], _HEAVY | {"rich"}),
        (["heartbeats", "--data", "."], _HEAVY | {"asyncio", "rich"}),
        (["incidents", "--data", "."], _HEAVY | {"asyncio", "rich"}),
        (["channels", "--data", "."], _HEAVY | {"asyncio", "rich"}),
        (["report", "--data", "."], _HEAVY | {"asyncio", "rich"}),
        (["ps", "--data", "."], _HEAVY),
        (["tail", "--data", "."], _HEAVY | {"asyncio", "rich"}),
        (["query", "--data", ".", "SELECT 1"], _HEAVY),
        (["config", "plan", "--data", ".", str(_SAMPLE)], _HEAVY),
        (["workflow", "check", str(_SAMPLE)], _HEAVY),
        (["run", "--help"], _HEAVY | {"asyncio", "rich"}),
        (["up", "--help"], _HEAVY | {"asyncio", "rich"}),
        # Fails after its imports, because this is not a folder.
        (
            ["up", "--data", "credentials.json"],
            {"sqlalchemy.dialects.postgresql", "aiokafka", "redis", "asyncpg", "rich"},
        ),
        (["whoami", "--data", "."], _HEAVY | {"asyncio", "rich", "ssl"}),
        (["__complete", "project", "show", ""], _HEAVY | {"asyncio", "rich", "ssl"}),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_a_command_imports_only_what_it_needs(
    unreachable: Path, arguments: list[str], unwanted: set[str]
) -> None:
    assert _imported(arguments, unreachable) & unwanted == set()


def test_a_command_on_engines_imports_no_server(unreachable: Path) -> None:
    imported = _imported(
        ["account", "list"],
        unreachable,
        PHAROS_DATABASE_URL="postgresql://127.0.0.1:9/none",
        PHAROS_REDIS_URL="redis://127.0.0.1:9",
    )
    assert "wiring.operator_door" in imported
    assert imported & (_SERVERS | {"chdb", "clickhouse_connect", "alembic", "aiokafka", "aiohttp"}) == set()
