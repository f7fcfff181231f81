"""Each running worker has a unique name, which its replacement gets again."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from pharos_client import process_slots
from pharos_client.process_slots import claim_slot, name_worker, release, try_claim
from pharos_client.queue_monitors import QueueMonitor

_SOURCE = Path(__file__).parents[4] / "clients" / "python" / "src"
_IDS = ("1" * 64, "2" * 64)


class Workers:
    """Processes that claim a name, print it, and keep it until they are killed."""

    def __init__(self) -> None:
        self.program = uuid.uuid4().hex
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, *prefix: str, monitor: int = 1, first: str = "", **environment: str) -> str:
        """Start a process; return its name. `first` is code that the process runs before."""
        code = (
            "import os, sys\n"
            "from pharos_client.process_slots import name_worker\n"
            "from pharos_client.queue_monitors import QueueMonitor\n"
            f"{first}\n"
            f"print(name_worker({self.program!r}, [QueueMonitor('http://x/api', {monitor}, 'k')]), flush=True)\n"
            "sys.stdin.read()\n"
        )
        process = subprocess.Popen(
            [*prefix, sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(_SOURCE), "PATH": os.environ["PATH"], **environment},
        )
        self._processes.append(process)
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        assert name
        return name

    def kill_all(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()
        self._processes.clear()


@pytest.fixture
def workers() -> Iterator[Workers]:
    started = Workers()
    try:
        yield started
    finally:
        started.kill_all()


@pytest.fixture
def file_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use file locks, as on macOS; return the cache folder."""
    monkeypatch.setattr(process_slots, "_IS_LINUX", False)
    monkeypatch.setattr(process_slots, "_held", {})
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "Library" / "Caches"
    folder.mkdir(parents=True)
    return folder


def test_a_worker_that_is_started_again_gets_the_name_of_the_killed_one(workers: Workers) -> None:
    names = [workers.start() for _ in range(3)]
    assert [name.rpartition("/")[2] for name in names] == ["0", "1", "2"] and len(set(names)) == 3
    workers.kill_all()
    assert [workers.start() for _ in range(3)] == names


def test_workers_with_other_folders_for_temporary_files_differ(workers: Workers, tmp_path: Path) -> None:
    """Systemd units with PrivateTmp and applications that Pharos deploys have separate folders for temporary files."""
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    assert len({workers.start(TMPDIR=str(folder)) for folder in folders}) == 2


def test_cleaning_temporary_files_does_not_free_a_name(workers: Workers, tmp_path: Path) -> None:
    first = workers.start(TMPDIR=str(tmp_path))
    for file in tmp_path.rglob("*"):
        if file.is_file():
            file.unlink()
    assert workers.start(TMPDIR=str(tmp_path)) != first


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process as another user")
def test_workers_of_two_users_differ(workers: Workers) -> None:
    assert workers.start() != workers.start(first="os.setuid(65534)")


def _can_make_containers() -> bool:
    return subprocess.run(["unshare", "--mount", "--net", "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not _can_make_containers(), reason="needs the right to create namespaces")
def test_containers_of_one_host_name_differ_and_keep_their_names(workers: Workers, tmp_path: Path) -> None:
    def start(container: str) -> str:
        # Do what Docker does: namespaces and folders of the container, and its files below /etc.
        file = tmp_path / "containers" / container / "hosts"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        script = f'mount --bind {file} /etc/hosts && exec "$@"'
        return workers.start("unshare", "--mount", "--net", "sh", "-c", script, "sh", TMPDIR=str(file.parent))

    names = [start(container) for container in _IDS]
    assert len(set(names)) == 2
    workers.kill_all()
    assert [start(container) for container in _IDS] == names


@pytest.mark.parametrize(
    ("lines", "container"),
    [
        (["29 1 8:1 / / rw - ext4 /dev/sda1 rw"], ""),
        # Docker
        ([f"9 1 8:1 /var/lib/docker/containers/{_IDS[0]}/hosts /etc/hosts rw - ext4 x rw"], _IDS[0]),
        # Podman
        ([f"9 1 0:4 /overlay-containers/{_IDS[1]}/userdata/hosts /etc/hosts rw - tmpfs x rw"], _IDS[1]),
        # Kubernetes, with a node that is a container too. The ID of a pod is stable, that of its sandbox is not.
        (
            [
                f"8 1 8:1 /containerd/sandboxes/{_IDS[0]}/hostname /etc/hostname rw - ext4 x rw",
                f"9 1 8:1 /volumes/{_IDS[1]}/_data/pods/{uuid.UUID(int=7)}/etc-hosts /etc/hosts rw - ext4 x rw",
            ],
            str(uuid.UUID(int=7)),
        ),
        # A mount of the user's own file does not identify a container.
        (
            [
                "8 1 8:1 /home/ada/hosts /etc/hosts rw - ext4 x rw",
                f"9 1 8:1 /containers/{_IDS[0]}/hostname /etc/hostname rw - ext4 x rw",
            ],
            _IDS[0],
        ),
        ([f"9 1 8:1 /volumes/{_IDS[0]}/_data /data rw - ext4 x rw", "", "9 1"], ""),
    ],
)
def test_the_container_is_known_by_its_mounts(lines: list[str], container: str) -> None:
    assert process_slots._find_container("\n".join(lines)) == container


def test_workers_of_other_queues_do_not_take_numbers(workers: Workers) -> None:
    names = [workers.start(monitor=1), workers.start(monitor=2)]
    assert len(set(names)) == 2 and all(name.endswith("/0") for name in names)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_keeps_no_name() -> None:
    """RQ runs each job in a process, which may live longer than a killed worker."""
    name = uuid.uuid4().hex
    assert try_claim(name) and try_claim(name) is False
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    try:
        release(name)
        deadline = time.monotonic() + 10
        # The child may not have run yet.
        while not (is_free := try_claim(name)) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert is_free
        release(name)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_without_sockets_a_worker_is_called_after_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("socket.socket.bind", refuse)
    assert try_claim("x") is None
    assert claim_slot("x") == os.getpid()


def test_file_locks(file_locks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (claim_slot("x"), claim_slot("x"), try_claim("y"), try_claim("y")) == (0, 1, True, False)
    assert len([file for file in file_locks.rglob("*") if file.is_file()]) == 3
    release("y")
    assert try_claim("y")
    monitors = [QueueMonitor("http://x/api", 1, "k")]
    first = name_worker("z", monitors)
    # Another user has other folders, and so another name with the same number.
    other = file_locks.parent / "other"
    monkeypatch.setenv("HOME", str(other))
    (other / "Library" / "Caches").mkdir(parents=True)
    second = name_worker("z", monitors)
    assert first != second and first[-2:] == second[-2:] == "/0"


def test_a_file_that_was_removed_before_it_was_locked_is_made_again(
    file_locks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    lock, removed = fcntl.lockf, []

    def remove_first(descriptor: int, kind: int) -> None:
        if not removed:
            removed.extend(file for file in file_locks.rglob("*") if file.is_file())
            removed[0].unlink()
        lock(descriptor, kind)

    monkeypatch.setattr(fcntl, "lockf", remove_first)
    assert try_claim("x") and removed[0].exists()
    assert os.path.samestat(removed[0].stat(), os.fstat(next(iter(process_slots._held.values()))))


def test_another_users_folder_is_not_used(file_locks: Path) -> None:
    (file_locks / f"pharos-client-{os.getuid()}").symlink_to(file_locks)
    assert try_claim("x") is None
    assert claim_slot("x") == os.getpid()
