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

from tests.support.engines import EngineMissing, free_port

_START_SECONDS = 30.0


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
            self.process.wait(20)

    def pause(self) -> None:
        """Let it hang: connections stay open, nothing answers."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
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
