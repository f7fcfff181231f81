"""`pharos config apply` while it asks and follows, and what is done with operations. On engines nothing is carried out
until a test says so."""

import asyncio
import json
import os
import pty
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support.commands import Run, ask, tell
from tests.support.configured import (
    DOCUMENT,
    KEY,
    NOBODY,
    SECRET,
    Given,
    applied,
    carry_out,
    make_project,
    write_document,
)
from tests.support.followed import Start
from tests.support.platform_process import PlatformProcess

# Of what nobody waits for where all is well: a command may take long to start, and longer to look again.
_SECONDS = 120


@pytest.fixture(scope="module")
def more_settings() -> Mapping[str, str]:
    return {"PHAROS_VARIABLES_KEY": KEY}


@pytest.fixture
def live(on_socket: PlatformProcess) -> str:
    """A project where what is applied is carried out."""
    return make_project(on_socket.run)


@pytest.fixture
def idle(on_engines: Run) -> str:
    """One where nothing is, but by `work`."""
    return make_project(on_engines)


@pytest.fixture
def given(tmp_path: Path) -> Given:
    """A document, and what it needs."""
    return write_document(tmp_path)


@pytest.fixture
def work(own_database_url: str) -> Callable[[], None]:
    """Carries out what was applied on engines."""
    return lambda: asyncio.run(carry_out(own_database_url))


@pytest.mark.parametrize("typed", ["no", "yes"])
def test_somebody_at_a_terminal_is_asked(
    on_socket: PlatformProcess, start: Start, live: str, given: Given, typed: str
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
        # The bar, then what it says above and behind itself; all of it may come at once.
        seen = _read_until(ours, " has succeeded.")
        assert "applying" in seen.partition(" has succeeded.")[0]
    assert process.wait(_SECONDS) == (0 if typed == "yes" else 1)
    os.close(ours)
    assert len(ask(on_socket.run, "config", "applications", "--project", live)) == (typed == "yes")


def _read_until(terminal: int, text: str) -> str:
    seen = b""
    while text.encode() not in seen:
        seen += os.read(terminal, 65536)
    # The last character may have come in part.
    return seen.decode(errors="replace")


def test_an_operation_that_fails(
    on_engines: Run,
    start: Start,
    work: Callable[[], None],
    idle: str,
    tmp_path: Path,
) -> None:
    mine = ("--project", idle)
    ask(on_engines, "environment", "create", "Live", "--type", "production", *mine)
    given = write_document(tmp_path, DOCUMENT.replace("type: production", "replicas: 2"))
    process = start("config", "apply", *given, *mine, "--yes")
    number = applied(on_engines, idle)["id"]
    # The plan has seen one replica.
    ask(on_engines, "environment", "scale", f"{idle}/live", "3")
    work()
    out, err = process.communicate(timeout=_SECONDS)
    first, second, third = (one["id"] for one in applied(on_engines, idle)["operations"])
    failed, *waiting = out.splitlines()[-3:]
    assert failed.startswith("failed     ~ environments.live: ") and "replicas" in failed
    assert waiting == [
        "pending    + environments.live.heartbeats.nightly",
        "pending    + environments.live.queues.default",
    ]
    # Where this machine is slow, it has said that nobody takes it up.
    assert (process.returncode, err.removeprefix(NOBODY)) == (
        1,
        f"pharos: Application {number} of {idle} has failed, and 2 operations wait after it. Fix the cause, "
        f"then `pharos config retry {number} {first}` continues it; or apply the document again.\n",
    )
    told = tell(on_engines, "config", "cancel", str(number), str(third))
    assert told == f"Operation {third} (create environments.live.queues.default) is canceled.\n"
    ask(on_engines, "environment", "scale", f"{idle}/live", "1")
    told = tell(on_engines, "config", "retry", str(number), str(first))
    assert told == f"Operation {first} (update environments.live) will run again.\n"
    work()
    shown = applied(on_engines, idle)
    assert [one["status"] for one in shown["operations"]] == ["succeeded", "succeeded", "canceled"]
    told = tell(on_engines, "config", "show", str(number))
    assert (
        f"\nOperation {first}: succeeded at attempt 2\n~ environments.live\n    ~ replicas: 1 → 2\n" in told
    )
    assert f"\nOperation {third}: canceled\n" in told and SECRET not in told
    listed = tell(on_engines, "config", "applications", *mine).splitlines()[1]
    assert " ".join(listed.split()).startswith(f"{number} {idle} canceled 2 succeeded, 1 canceled ")


def test_a_failure_as_json(
    on_engines: Run,
    start: Start,
    work: Callable[[], None],
    idle: str,
    given: Given,
) -> None:
    process = start("config", "apply", *given, "--project", idle, "--yes", "--json")
    application = applied(on_engines, idle)
    for operation in application["operations"]:
        ask(on_engines, "config", "cancel", str(application["id"]), str(operation["id"]))
    out, err = process.communicate(timeout=_SECONDS)
    # As above.
    assert (process.returncode, err.removeprefix(NOBODY)) == (1, "")
    assert json.loads(out) == applied(on_engines, idle)
    assert json.loads(out)["status"] == "canceled"
    work()


def test_what_nobody_takes_up_and_ctrl_c(
    on_engines: Run,
    start: Start,
    work: Callable[[], None],
    idle: str,
    given: Given,
) -> None:
    process = start("config", "apply", *given, "--project", idle, "--yes")
    number = applied(on_engines, idle)["id"]
    assert process.stderr is not None
    assert process.stderr.readline() == NOBODY
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=_SECONDS)
    assert process.returncode == 130
    assert err == (
        f"\nApplication {number} is still in progress: `pharos config show {number}` shows its operations, `pharos "
        f"config cancel {number} OPERATION` cancels one that has not begun.\n"
    )
    work()
    assert applied(on_engines, idle)["status"] == "succeeded"
