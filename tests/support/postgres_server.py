"""PostgreSQL itself, a fresh cluster on loopback. The server refuses to run as root: then it runs as `postgres`."""

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
# Shared memory in files of the cluster: a killed server leaves nothing behind elsewhere.
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
    # Memory, too, where the cluster is in it.
    "max_wal_size": "64MB",
    "min_wal_size": "32MB",
}


@dataclass(slots=True)
class PostgresServer:
    """A server's processes, and how to start it again on the same cluster."""

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
        """Of a role that may do everything, in the database that every cluster has."""
        return f"postgresql://pharos@127.0.0.1:{self.port}/postgres"

    def make_cluster(self) -> None:
        """`initdb`. Whoever reaches the port is let in: it is open on loopback only."""
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
        """Start and wait until it takes connections. Raises `RuntimeError`."""
        options = (_OPTIONS if self.durable else _OPTIONS | _NOT_DURABLE) | self.options
        given = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [str(self.binaries / "postgres"), "-D", str(self.data), "-p", str(self.port), *given],
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
        # Where `pg_ctl --wait` looks: the number of the process in the first line, its state in the eighth.
        with contextlib.suppress(FileNotFoundError):
            lines = (self.data / "postmaster.pid").read_text().split("\n")
            assert self.process is not None
            return lines[0] == str(self.process.pid) and len(lines) > 7 and lines[7].strip() == "ready"
        return False

    def stop(self) -> None:
        """End it in order, without waiting for clients."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """SIGKILL to all its processes at once, as when its machine loses power."""
        reached = self._signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()
        # A new start refuses while one of the old processes is there.
        while any(_is_running(process) for process in reached):
            time.sleep(0.01)

    def pause(self) -> None:
        """Let it hang: connections stay open, nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """End a pause."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> list[psutil.Process]:
        if self.process is None or self.process.poll() is not None:
            return []
        first = psutil.Process(self.process.pid)
        # The first alone makes others: it is signalled before they are counted, so that none is missed.
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
    """A server on a cluster of its own, gone at the end; its log is `folder`/postgres.log.

    Raises `EngineMissing`. With `durable` it syncs as a real one does.
    """
    binaries = _find_binaries()
    # A test's own folder is closed to the user that the server runs as. And not where `tempfile.tempdir` points.
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
    """The newest of Debian's versions, before whatever `postgres` in the path may be."""
    versions = [p for p in Path("/usr/lib/postgresql").glob("*/bin") if (p / "initdb").exists()]
    if versions:
        return max(versions, key=lambda path: [int(n) for n in re.findall(r"\d+", path.parent.name)])
    found = shutil.which("initdb")
    if found is not None and (Path(found).resolve().parent / "postgres").exists():
        return Path(found).resolve().parent
    raise EngineMissing("PostgreSQL is not installed; on Debian: apt-get install postgresql")


def _user() -> dict[str, Any]:
    """How `subprocess` starts it as somebody else than root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            found = pwd.getpwnam(name)
            return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    return {}
