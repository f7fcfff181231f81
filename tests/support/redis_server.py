"""Redis itself, on loopback, without persistence."""

import contextlib
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from storage_backends import redis_connection
from storage_backends.redis_connection import RedisConnection
from tests.support.engines import EngineMissing, free_port

_START_SECONDS = 60.0
_PRODUCTS_SECONDS = redis_connection._CALL_SECONDS
_PATIENT_SECONDS = 30.0


@dataclass(slots=True)
class RedisServer:
    """A server's process, and how to start it again, empty."""

    folder: Path
    port: int
    process: "subprocess.Popen[bytes] | None" = field(default=None)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start and wait until it answers. Raises `EngineMissing` and `RuntimeError`."""
        program = shutil.which("redis-server")
        if program is None:
            raise EngineMissing("redis-server is not installed; on Debian: apt-get install redis-server")
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "redis.log", "ab") as log:
            self.process = subprocess.Popen(
                [
                    *(program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""),
                    *("--appendonly", "no", "--dir", str(self.folder)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "redis.log").read_text()[-2000:])
            time.sleep(0.02)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0) as probe:
            probe.sendall(b"PING\r\n")
            return probe.recv(5) == b"+PONG"
        return False

    def stop(self, number: int = signal.SIGKILL) -> None:
        """End it, with all that it holds."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(number)
            self.process.wait(60)

    def pause(self) -> None:
        """Let it hang: connections stay open, nothing answers."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """End a pause."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def restart(self) -> None:
        """The same address, empty."""
        self.stop()
        self.start()


@contextlib.contextmanager
def running_redis(folder: Path, port: int | None = None) -> Iterator[RedisServer]:
    """A server of its own, gone at the end. Raises `EngineMissing`."""
    server = RedisServer(folder, port or free_port())
    try:
        server.start()
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def recorded_attempts(connection: RedisConnection) -> Iterator[list[object]]:
    """Meanwhile the clock by which it waits for a Redis that is away stands still, and each call that it makes all the
    same is noted."""
    tries: list[object] = []
    now, run = connection._clock(), connection._run

    async def note_and_run(call: Any) -> Any:
        tries.append(call)
        return await run(call)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "_clock", lambda: now)
        patch.setattr(connection, "_run", note_and_run)
        yield tries


@contextlib.contextmanager
def patient_redis() -> Iterator[None]:
    """Clients that are made meanwhile take a Redis for away that cannot be reached, and not one that is slow to answer
    because the machine stood still for a moment."""
    with _waiting(_PATIENT_SECONDS):
        yield


@contextlib.contextmanager
def hasty_redis() -> Iterator[None]:
    """Clients that are made meanwhile wait no longer than the product's do: for tests of a Redis that hangs."""
    with _waiting(_PRODUCTS_SECONDS):
        yield


@contextlib.contextmanager
def _waiting(seconds: float) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redis_connection, "_CALL_SECONDS", seconds)
        yield
