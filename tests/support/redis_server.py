"""A Redis server on loopback, without persistence."""

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
_PRODUCT_SECONDS = redis_connection._CALL_SECONDS
_PATIENT_SECONDS = 30.0


@dataclass(slots=True)
class RedisServer:
    """A server, which can be restarted empty."""

    folder: Path
    port: int
    process: "subprocess.Popen[bytes] | None" = field(default=None)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start, and wait until the server responds. Raises `EngineMissing` and `RuntimeError`."""
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
        while not self._responds():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "redis.log").read_text()[-2000:])
            time.sleep(0.02)

    def _responds(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0) as probe:
            probe.sendall(b"PING\r\n")
            return probe.recv(5) == b"+PONG"
        return False

    def stop(self, number: int = signal.SIGKILL) -> None:
        """Stop the server with this signal; its data is lost."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(number)
            self.process.wait(60)

    def pause(self) -> None:
        """Suspend the server: connections stay open, nothing responds."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a suspended server continue."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def restart(self) -> None:
        """Start the server again on the same address, without data."""
        self.stop()
        self.start()


@contextlib.contextmanager
def running_redis(folder: Path, port: int | None = None) -> Iterator[RedisServer]:
    """Yield a server; kill it at the end. Raises `EngineMissing`."""
    server = RedisServer(folder, port or free_port())
    try:
        server.start()
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def recorded_attempts(connection: RedisConnection) -> Iterator[list[object]]:
    """Stop the clock of the connection's back-off, and yield a list of the calls that the connection still makes."""
    attempts: list[object] = []
    now, run = connection._clock(), connection._run

    async def record_and_run(call: Any) -> Any:
        attempts.append(call)
        return await run(call)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "_clock", lambda: now)
        patch.setattr(connection, "_run", record_and_run)
        yield attempts


@contextlib.contextmanager
def patient_redis() -> Iterator[None]:
    """Give clients that are created in this block a long call timeout: a slow machine must not count as an outage."""
    with _call_timeout(_PATIENT_SECONDS):
        yield


@contextlib.contextmanager
def hasty_redis() -> Iterator[None]:
    """Give clients that are created in this block the product's call timeout: for tests of a suspended Redis."""
    with _call_timeout(_PRODUCT_SECONDS):
        yield


@contextlib.contextmanager
def _call_timeout(seconds: float) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redis_connection, "_CALL_SECONDS", seconds)
        yield
