"""`pharos config apply`: the question, the progress, and `cancel` and `retry`. On engines a test applies the steps."""

import asyncio
import json
import os
import pty
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support.command_deployments import StartCommand
from tests.support.commands import RunCommand, run_json, run_text
from tests.support.configured import (
    DOCUMENT,
    KEY,
    SECRET,
    Given,
    applied,
    carry_out,
    make_project,
    write_document,
)
from tests.support.platform_process import PlatformProcess

# Reached only if something is wrong: a command may start and poll slowly on a busy machine.
_SECONDS = 120


@pytest.fixture(scope="module")
def extra_settings() -> Mapping[str, str]:
    return {"PHAROS_VARIABLES_KEY": KEY}


@pytest.fixture
def live(on_socket: PlatformProcess) -> str:
    """A new project on an installation that applies documents."""
    return make_project(on_socket.run)


@pytest.fixture
def idle(on_engines: RunCommand) -> str:
    """A new project on engines, where only `work` applies steps."""
    return make_project(on_engines)


@pytest.fixture
def given(tmp_path: Path) -> Given:
    """Write a document and its bindings, and return their paths."""
    return write_document(tmp_path)


@pytest.fixture
def work(own_database_url: str) -> Callable[[], None]:
    """Return a function that applies the steps on engines."""
    return lambda: asyncio.run(carry_out(own_database_url))


@pytest.mark.parametrize("typed", ["no", "yes"])
def test_a_person_at_a_terminal_is_asked_to_confirm(
    on_socket: PlatformProcess, start: StartCommand, live: str, given: Given, typed: str
) -> None:
    ours, theirs = pty.openpty()
    terminal = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    process = start("config", "apply", *given, "--project", live, socket=True, **terminal)
    os.close(theirs)
    asked = f"This will create 3, change 0 and delete 0 resources of {live}. Type yes to go on: "
    seen = _read_until(ours, asked)
    assert "\x1b[1;32m+ environments.live\x1b[0m" in seen and SECRET not in seen
    os.write(ours, f"{typed}\n".encode())
    if typed == "no":
        _read_until(ours, "Nothing was changed.")
    else:
        # The bar, then the lines above and after it, possibly in one read.
        seen = _read_until(ours, " has succeeded.")
        assert "applying" in seen.partition(" has succeeded.")[0]
    assert process.wait(_SECONDS) == (0 if typed == "yes" else 1)
    os.close(ours)
    assert len(run_json(on_socket.run, "config", "applications", "--project", live)) == (typed == "yes")


def _read_until(terminal: int, text: str) -> str:
    seen = b""
    while text.encode() not in seen:
        seen += os.read(terminal, 65536)
    # The last character may be incomplete.
    return seen.decode(errors="replace")


def test_a_failed_step_is_canceled_or_retried(
    on_engines: RunCommand,
    start: StartCommand,
    work: Callable[[], None],
    idle: str,
    tmp_path: Path,
) -> None:
    mine = ("--project", idle)
    run_json(on_engines, "environment", "create", "Live", "--type", "production", *mine)
    given = write_document(tmp_path, DOCUMENT.replace("type: production", "replicas: 2"))
    process = start("config", "apply", *given, *mine, "--yes")
    number = applied(on_engines, idle)["id"]
    # The plan was made with one replica.
    run_json(on_engines, "environment", "scale", f"{idle}/live", "3")
    work()
    out, err = process.communicate(timeout=_SECONDS)
    first, second, third = (one["id"] for one in applied(on_engines, idle)["operations"])
    failed, *waiting = out.splitlines()[-3:]
    assert failed.startswith("failed     ~ environments.live: ") and "replicas" in failed
    assert waiting == [
        "pending    + environments.live.heartbeats.nightly",
        "pending    + environments.live.queues.default",
    ]
    assert (process.returncode, err) == (
        1,
        f"pharos: Application {number} of {idle} has failed, and 2 operations wait after it. Fix the cause, "
        f"then `pharos config retry {number} {first}` continues it; or apply the document again.\n",
    )
    output = run_text(on_engines, "config", "cancel", str(number), str(third))
    assert output == f"Operation {third} (create environments.live.queues.default) is canceled.\n"
    run_json(on_engines, "environment", "scale", f"{idle}/live", "1")
    output = run_text(on_engines, "config", "retry", str(number), str(first))
    assert output == f"Operation {first} (update environments.live) will run again.\n"
    work()
    shown = applied(on_engines, idle)
    assert [one["status"] for one in shown["operations"]] == ["succeeded", "succeeded", "canceled"]
    output = run_text(on_engines, "config", "show", str(number))
    assert (
        f"\nOperation {first}: succeeded at attempt 2\n~ environments.live\n    ~ replicas: 1 → 2\n" in output
    )
    assert f"\nOperation {third}: canceled\n" in output and SECRET not in output
    listed = run_text(on_engines, "config", "applications", *mine).splitlines()[1]
    assert " ".join(listed.split()).startswith(f"{number} {idle} canceled 2 succeeded, 1 canceled ")


def test_a_failure_is_printed_as_json(
    on_engines: RunCommand,
    start: StartCommand,
    work: Callable[[], None],
    idle: str,
    given: Given,
) -> None:
    process = start("config", "apply", *given, "--project", idle, "--yes", "--json")
    application = applied(on_engines, idle)
    for operation in application["operations"]:
        run_json(on_engines, "config", "cancel", str(application["id"]), str(operation["id"]))
    out, err = process.communicate(timeout=_SECONDS)
    assert (process.returncode, err) == (1, "")
    assert json.loads(out) == applied(on_engines, idle)
    assert json.loads(out)["status"] == "canceled"
    work()


def test_ctrl_c_does_not_end_a_run(
    on_engines: RunCommand,
    start: StartCommand,
    work: Callable[[], None],
    idle: str,
    given: Given,
) -> None:
    process = start("config", "apply", *given, "--project", idle, "--yes")
    number = applied(on_engines, idle)["id"]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=_SECONDS)
    assert process.returncode == 130
    assert err == (
        f"\nApplication {number} is still in progress: `pharos config show {number}` shows its operations, `pharos "
        f"config cancel {number} OPERATION` cancels one that has not begun.\n"
    )
    work()
    assert applied(on_engines, idle)["status"] == "succeeded"
