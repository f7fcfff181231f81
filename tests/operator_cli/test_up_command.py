"""`pharos up`: the greeting, and starts that fail or are interrupted."""

import argparse
import asyncio
import gc
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from operator_cli.errors import CommandFailed
from operator_cli.processes import run_up
from operator_cli.processes.greeting import format_greeting
from pipeline_contracts.settings import Settings
from tests.support import fork_server
from tests.support.commands import CLEAN_ENVIRONMENT, RunCommand, command_runner
from tests.support.platform_process import PHAROS

_KEY = "phr_ing_abc123"
_START_SECONDS = 120


def _greeting(data: Path, *, show_key: bool) -> str:
    credentials = {"ingest_key": _KEY}
    return format_greeting("http://127.0.0.1:8000/api", credentials, data, sign_in="", show_key=show_key)


def test_the_key_is_printed_on_terminals_only() -> None:
    assert f'"Authorization: Bearer {_KEY}"' in _greeting(Path(".pharos"), show_key=True)
    assert _KEY not in _greeting(Path(".pharos"), show_key=False)


@pytest.mark.parametrize("is_terminal", [True, False])
async def test_the_greeting_contains_secrets_only_on_a_terminal(
    is_terminal: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    @asynccontextmanager
    async def run_platform(*_given: Any, **_named: Any) -> AsyncIterator[Any]:
        yield SimpleNamespace(
            base_url="http://127.0.0.1:8000/api",
            credentials={"ingest_key": _KEY, "account_id": "acc_a"},
            sessions=None,
        )

    async def create_first_link(*_given: Any) -> str:
        return "phr_lnk_" + "x" * 38

    async def has_nobody_signed_in(_sessions: object) -> bool:
        return True

    async def name_first_environment(_sessions: object, _account_id: str) -> None:
        return None

    monkeypatch.setattr(run_up, "name_first_environment", name_first_environment)
    monkeypatch.setattr(run_up, "create_first_link", create_first_link)
    monkeypatch.setattr(run_up, "has_nobody_signed_in", has_nobody_signed_in)
    monkeypatch.setattr(run_up, "run_platform", run_platform)
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    stop = asyncio.Event()
    stop.set()
    given = argparse.Namespace(data=tmp_path, host="127.0.0.1", port=0, apps_port=None, demo=False)
    await run_up._run_until_stopped(given, Settings(), asyncio.Event(), stop)
    output = capsys.readouterr().out
    assert output.startswith("\nPharos is up. The dashboard:\n\n  http://127.0.0.1:8000\n\n")
    assert (_KEY in output) is is_terminal
    link = f"  http://127.0.0.1:8000/sign-in#link={'x' * 38}"
    assert (link in output.splitlines()) is is_terminal and len(link) <= 80
    assert ("pharos sign-in-link" in output) is not is_terminal

    async def create_no_link(*_given: Any) -> None:
        return None

    async def has_somebody_signed_in(_sessions: object) -> bool:
        return False

    monkeypatch.setattr(run_up, "create_first_link", create_no_link)
    monkeypatch.setattr(run_up, "has_nobody_signed_in", has_somebody_signed_in)
    await run_up._run_until_stopped(given, Settings(), asyncio.Event(), stop)
    output = capsys.readouterr().out
    assert "Sign in with your password." in output and "pharos sign-in-link" in output


@pytest.mark.parametrize(
    ("has_others", "is_demo", "named"),
    [(False, False, None), (True, False, "my-project/production"), (False, True, "my-project/production")],
)
async def test_commands_name_an_environment_if_there_are_several(
    has_others: bool, is_demo: bool, named: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a later start without the demo, whose environments are still there."""

    async def name_first_environment(_sessions: object, account_id: str) -> tuple[str, bool]:
        assert account_id == "acc_a"
        return "my-project/production", has_others

    monkeypatch.setattr(run_up, "name_first_environment", name_first_environment)
    platform: Any = SimpleNamespace(sessions=None, credentials={"account_id": "acc_a"})
    assert await run_up._choose_environment(platform, is_demo=is_demo) == named


async def test_a_demo_that_was_killed_can_be_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark of a demo folder is written first, and only by starts with the demo."""
    database = tmp_path / "control.sqlite"

    class KilledError(Exception):
        pass

    @asynccontextmanager
    async def run_platform(
        *_given: Any, before_first_start: Callable[[], None], **_named: Any
    ) -> AsyncIterator[Any]:
        if not database.exists():
            before_first_start()
            if made:
                database.touch()
        raise KilledError
        yield

    async def start(*, demo: bool) -> None:
        given = argparse.Namespace(data=tmp_path, host="127.0.0.1", port=0, apps_port=None, demo=demo)
        with pytest.raises(KilledError):
            await run_up._run_until_stopped(given, Settings(), asyncio.Event(), asyncio.Event())

    monkeypatch.setattr(run_up, "run_platform", run_platform)
    made = False
    await start(demo=True)
    await start(demo=False)
    assert [*tmp_path.iterdir()] == []
    made = True
    await start(demo=True)
    await start(demo=True)
    began = (tmp_path / "demo.json").read_text()
    assert "began" in began
    # Without the demo, a folder gets no mark.
    await start(demo=False)
    assert (tmp_path / "demo.json").read_text() == began
    (tmp_path / "demo.json").unlink()
    with pytest.raises(CommandFailed, match="without the demo"):
        await run_up._run_until_stopped(
            argparse.Namespace(data=tmp_path, demo=True), Settings(), asyncio.Event(), asyncio.Event()
        )


def test_the_printed_command_reads_the_key_from_any_folder(tmp_path: Path) -> None:
    data = tmp_path / 'it\'s "the" $HOME of `data`'
    data.mkdir()
    (data / "credentials.json").write_text(
        f'{{\n  "api_token": "x",\n  "ingest_key": "{_KEY}",\n  "a": 1\n}}\n'
    )
    lines = _greeting(data, show_key=False).splitlines()
    (header,) = (line.strip().removesuffix(" \\").removeprefix("-H ") for line in lines if "Bearer" in line)
    done = subprocess.run(["sh", "-c", f"printf %s {header}"], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"Authorization: Bearer {_KEY}", "")


def test_the_printed_commands_work_for_any_folder(tmp_path: Path) -> None:
    data = Path("it's here")
    output = _greeting(data, show_key=False)
    assert "pharos tail --data 'it'\"'\"'s here'\n" in output
    assert "pharos tail\n" in _greeting(Path(".pharos"), show_key=False)
    of_demo = format_greeting("x", {"ingest_key": _KEY}, data, sign_in="", show_key=False, environment="a/b")
    assert " a/b\n" in of_demo and " --environment a/b\n" in of_demo


def _expect_failed_start(pharos: RunCommand, *options: str) -> str:
    """Return the error message of a start, which follows the first lines of every start."""
    done = pharos("up", *options)
    lines = done.stdout.splitlines()
    assert done.returncode == 1 and lines[0].startswith("Starting Pharos ")
    assert all(line.startswith("  ") for line in lines[1:])
    assert done.stderr.startswith("pharos: ") and len(done.stderr.splitlines()) == 1
    return done.stderr.removeprefix("pharos: ").rstrip("\n")


def test_a_failed_start_prints_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    pharos = command_runner(tmp_path)
    assert _expect_failed_start(pharos, "--data", "file") == (
        "file cannot be used: Not a directory. Move that file away, or choose another --data."
    )
    assert _expect_failed_start(pharos, "--port", "99999") == (
        "127.0.0.1:99999 cannot be used (a port is 0 to 65535). Choose another --port."
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = _expect_failed_start(pharos, "--port", str(port), "--data", "second")
        assert message.startswith(
            f"127.0.0.1:{port} cannot be used (Address already in use). Choose another --port."
        )
        # A port that the message may name, so that the example can be typed.
        assert re.search(r" For example: pharos up --data second --port \d+$", message)
        message = _expect_failed_start(pharos, "--port", "0", "--apps-port", str(port), "--data", "second")
        assert message.endswith("Choose another --apps-port.")
    (tmp_path / "spoiled").mkdir()
    (tmp_path / "spoiled" / "control.sqlite").write_text("no database " * 100)
    assert _expect_failed_start(pharos, "--port", "0", "--data", "spoiled") == (
        "spoiled/control.sqlite cannot be read: file is not a database. Restore the whole data folder from a "
        "backup, or choose another --data."
    )


@pytest.mark.parametrize(
    ("number", "status", "present"),
    [
        (signal.SIGINT, 130, "lock"),
        (signal.SIGINT, 130, "control.sqlite"),
        (signal.SIGINT, 130, "event-log.sqlite"),
        (signal.SIGTERM, 0, "clickhouse"),
    ],
)
def test_a_signal_during_the_start_cancels_it(
    number: signal.Signals, status: int, present: str, tmp_path: Path
) -> None:
    command = [str(PHAROS), "up", "--port", "0", "--data", "data"]
    env = {**CLEAN_ENVIRONMENT, "PHAROS_METRICS_LISTEN": "127.0.0.1:0", "PHAROS_LOG_LEVEL": "error"}
    out, errors = tmp_path / "out", tmp_path / "errors"
    with open(out, "wb") as to_out, open(errors, "wb") as to_errors:
        process = fork_server.popen(command, stdout=to_out, stderr=to_errors, env=env, cwd=tmp_path)
    deadline = time.monotonic() + _START_SECONDS
    while not (tmp_path / "data" / present).exists() and time.monotonic() < deadline:
        time.sleep(0.001)
    os.kill(process.pid, number)
    ended = process.wait(_START_SECONDS)
    if "Pharos is up" in out.read_text():
        # On a busy machine the platform may be ready before the signal arrives, and stop in an orderly way.
        assert (ended, errors.read_text()) == (0, "")
    else:
        assert (ended, errors.read_text()) == (status, "pharos: Stopped before it was ready.\n")
        # The first line comes before the platform is imported.
        assert out.read_text().startswith("Starting Pharos ")
    # The next start can use all remaining files.
    assert (tmp_path / "data" / "lock").exists()
