"""A PostgreSQL server with a new cluster on loopback. It refuses to run as root, so tests that run as root start it as
`postgres`."""

import contextlib
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.support.engines import EngineMissing, free_port
from tests.support.reaper import run_folder

_START_SECONDS = 120.0
# Shared memory in files of the cluster, so that a killed server leaves nothing elsewhere.
_OPTIONS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "32MB",
    "dynamic_shared_memory_type": "mmap",
}
_NOT_DURABLE = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    # The cluster may be in memory.
    "max_wal_size": "64MB",
    "min_wal_size": "32MB",
}


@dataclass(slots=True)
class PostgresServer:
    """A server, which can be restarted on the same cluster."""

    binaries: Path
    data: Path
    log: Path
    port: int
    durable: bool
    options: dict[str, str] = field(default_factory=dict)
    """More parameters of the server."""
    process: "subprocess.Popen[bytes] | None" = field(default=None)

    @property
    def url(self) -> str:
        """The URL of the superuser in the database `postgres`."""
        return f"postgresql://pharos@127.0.0.1:{self.port}/postgres"

    def make_cluster(self) -> None:
        """Run `initdb`. The server trusts every client: it listens on loopback only."""
        subprocess.run(
            [
                *(str(self.binaries / "initdb"), "--pgdata", str(self.data), "--username", "pharos"),
                *("--auth", "trust", "--no-sync", "--encoding", "UTF8", "--locale", "C"),
            ],
            check=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd="/",
            **_user(),
        )

    def start(self) -> None:
        """Start, and wait until the server accepts connections. Raises `RuntimeError`."""
        options = (_OPTIONS if self.durable else _OPTIONS | _NOT_DURABLE) | self.options
        parameters = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [str(self.binaries / "postgres"), "-D", str(self.data), "-p", str(self.port), *parameters],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                **_user(),
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"PostgreSQL did not start:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.02)

    def _is_ready(self) -> bool:
        # The file that `pg_ctl --wait` reads: the process ID in the first line, the state in the eighth.
        with contextlib.suppress(FileNotFoundError):
            lines = (self.data / "postmaster.pid").read_text().split("\n")
            assert self.process is not None
            return lines[0] == str(self.process.pid) and len(lines) > 7 and lines[7].strip() == "ready"
        return False

    def stop(self) -> None:
        """Stop the server in an orderly way, without waiting for clients."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """Kill all processes with SIGKILL, as in a power failure."""
        reached = self._signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()
        # The server does not start while an old process exists.
        while any(_is_running(process) for process in reached):
            time.sleep(0.01)

    def pause(self) -> None:
        """Suspend the server: connections stay open, nothing responds."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a suspended server continue."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> list[psutil.Process]:
        if self.process is None or self.process.poll() is not None:
            return []
        first = psutil.Process(self.process.pid)
        # Only the first process starts others. It is signalled before the others are listed, so that none is missed.
        children = first.children(recursive=True)
        first.send_signal(number)
        reached = {*children, *_children_of(first)}
        for process in reached:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        return list(reached)


def _is_running(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def _children_of(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.children(recursive=True)
    return []


@contextlib.contextmanager
def running_postgres(
    folder: Path, port: int | None = None, *, durable: bool = False, options: dict[str, str] | None = None
) -> Iterator[PostgresServer]:
    """Yield a server on a new cluster, removed at the end; its log is `folder`/postgres.log.

    With `durable` it syncs to disk. Raises `EngineMissing`.
    """
    binaries = _find_binaries()
    # Neither the test's folder nor that of `tempfile.tempdir`: the user of the server cannot enter them.
    home = Path(tempfile.mkdtemp(prefix="postgres-", dir=run_folder()))
    server = PostgresServer(
        binaries, home / "data", folder / "postgres.log", port or free_port(), durable, options or {}
    )
    try:
        if user := _user():
            os.chown(home, user["user"], user["group"])
        server.make_cluster()
        server.start()
        yield server
    finally:
        server.resume()
        server.stop()
        shutil.rmtree(home)


def _find_binaries() -> Path:
    """Return the folder of the newest version of Debian, or else of the `initdb` in PATH. Raises `EngineMissing`."""
    versions = [p for p in Path("/usr/lib/postgresql").glob("*/bin") if (p / "initdb").exists()]
    if versions:
        return max(versions, key=lambda path: [int(n) for n in re.findall(r"\d+", path.parent.name)])
    found = shutil.which("initdb")
    if found is not None and (Path(found).resolve().parent / "postgres").exists():
        return Path(found).resolve().parent
    raise EngineMissing("PostgreSQL is not installed; on Debian: apt-get install postgresql")


def _user() -> dict[str, Any]:
    """Return the options of `subprocess` that start the server as another user than root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            found = pwd.getpwnam(name)
            return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    return {}
