"""What is refused before anything starts, and what a process shares with us once it has."""

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from deployer.processes.confinement import Confinement, Owner, search_path
from deployer.processes.run_step import StepFailed
from tests.deployer.processes.places import Place, command_line, until

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who gives processes to other users")


@as_root
async def test_nothing_is_run_as_root(place: Place) -> None:
    for owner in (None, Owner(0, 0), Owner(0, 5), Owner(5, 0), Owner(-1, 5)):
        with pytest.raises(ValueError, match="root"):
            await place.changed(owner=owner).run("true")


@pytest.mark.parametrize(
    ("command", "variables", "mark"),
    [
        ("a\0b", {}, "m"),
        ("true", {"A=B": "c"}, "m"),
        ("true", {"": "c"}, "m"),
        ("true", {"A": "secret\0"}, "m"),
        ("true", {}, ""),
        ("true", {}, "a b"),
        ("true", {}, "a\\b"),
        ("true", {}, "m" * 201),
    ],
)
async def test_what_can_never_be_started(
    place: Place, command: str, variables: dict[str, str], mark: str
) -> None:
    place.variables = variables
    bad = Place(place.path, place.confinement, mark, variables)
    with pytest.raises(ValueError) as caught:
        await bad.run(command)
    assert "secret" not in str(caught.value)


async def test_variables_that_are_too_large(place: Place) -> None:
    place.variables = {"LARGE": "x" * 200_000}
    with pytest.raises(StepFailed, match="could not be started: Argument list too long"):
        await place.run("true")


def test_the_search_path_is_ours_without_the_virtual_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PATH", f"{sys.prefix}/bin:/usr/bin:.::bin:{sys.prefix}/./bin/:/bin")
    assert search_path().startswith("/usr/bin:/bin:/usr/local/")
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    monkeypatch.setattr(sys, "prefix", "/opt/python")
    monkeypatch.setattr(sys, "base_prefix", "/opt/python")
    monkeypatch.setenv("PATH", f"{sys.prefix}/bin:/root/.pyenv/shims:/root:/bin")
    assert search_path().split(":")[:2] == ["/opt/python/bin", "/bin"]
    monkeypatch.setenv("PATH", "")
    assert "/usr/bin" in search_path().split(":")


async def test_the_shell_dies_with_the_thread_that_started_it(place: Place, nowhere: int) -> None:
    """What the kernel calls the parent is a thread."""

    pids = []

    async def start() -> None:
        process = place.start("exec sleep 60", nowhere)
        await until(lambda: command_line(process.pid).startswith(b"sleep\0"))
        process.forget()
        pids.append(process.pid)

    thread = threading.Thread(target=lambda: asyncio.run(start()))
    thread.start()
    await asyncio.to_thread(thread.join)
    _, status = await asyncio.to_thread(os.waitpid, pids[0], 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def test_defaults_are_the_strict_ones(tmp_path: Path) -> None:
    assert Confinement(tmp_path, tmp_path, None).is_writable is False
