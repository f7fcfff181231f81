"""Each running worker has an identity of its own, which the one that replaces it gets again."""

import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.javascript_client import node_environment

_IDS = ("1" * 64, "2" * 64)
# Prints the identity of each report. Nothing of it needs a network, which a new namespace has not.
_WORKER = """
import { EventEmitter } from 'node:events'
import { watchWorker } from 'pharos-client/bullmq'
const [before, url, monitor] = process.argv.slice(2)
eval(before)
const fetch = async (_url, { body }) => {
  console.log(JSON.parse(body).worker_id)
  return new Response('', { status: 202 })
}
watchWorker(Object.assign(new EventEmitter(), { name: 'mail' }), { url, monitor: `${monitor}:phr_mon_x`, fetch })
process.stdin.resume()
"""
_CLUSTER = """
import cluster from 'node:cluster'
if (cluster.isPrimary) {
  cluster.fork()
  cluster.fork()
} else await import('./worker.mjs')
"""


class Workers:
    """Processes that report a worker, print its identity, and keep it until they are killed."""

    def __init__(self, app: Path) -> None:
        self.url = f"https://{uuid.uuid4().hex}.example"
        self._app = app
        self._processes: list[subprocess.Popen[str]] = []

    def start(
        self,
        *prefix: str,
        before: str = "",
        path: str = "",
        monitor: int = 1,
        program: str = "worker",
        workers: int = 1,
    ) -> list[str]:
        """Start a process; return the identities of its workers. `before` is code that it runs first."""
        process = subprocess.Popen(
            [*prefix, "node", f"{program}.mjs", before, self.url + path, str(monitor)],
            cwd=self._app,
            env=node_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._processes.append(process)
        assert process.stdout is not None
        found = [process.stdout.readline().strip() for _ in range(workers)]
        assert all(found)
        return found

    def kill_all(self) -> None:
        for process in self._processes:
            # A cluster is several processes.
            os.killpg(process.pid, 9)
            process.communicate()
        self._processes.clear()


@pytest.fixture
def workers(app: Path) -> Iterator[Workers]:
    (app / "worker.mjs").write_text(_WORKER)
    (app / "cluster.mjs").write_text(_CLUSTER)
    started = Workers(app)
    try:
        yield started
    finally:
        started.kill_all()


def test_a_worker_that_is_started_again_gets_the_identity_of_the_killed_one(workers: Workers) -> None:
    found = [workers.start() for _ in range(3)]
    assert len({identity for (identity,) in found}) == 3
    # Those of another queue take no numbers from these.
    assert workers.start(monitor=2) not in found
    workers.kill_all()
    assert [workers.start() for _ in range(3)] == found


def test_processes_of_a_cluster_differ(workers: Workers) -> None:
    # The name of an abstract socket has at most 107 bytes.
    path = "/pharos" * 20
    found = workers.start(program="cluster", path=path, workers=2)
    assert len(set(found)) == 2
    workers.kill_all()
    assert set(workers.start(program="cluster", path=path, workers=2)) == set(found)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process as another user")
def test_workers_of_two_users_differ(workers: Workers) -> None:
    assert workers.start() != workers.start(before="process.setuid(65534)")


def _can_make_containers() -> bool:
    return subprocess.run(["unshare", "--mount", "--net", "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not _can_make_containers(), reason="needs the right to create namespaces")
def test_containers_of_one_host_name_differ_and_keep_their_identities(
    workers: Workers, tmp_path: Path
) -> None:
    def start(container: str) -> list[str]:
        # What Docker does: namespaces and folders of the container, and its files below /etc.
        file = tmp_path / "containers" / container / "hosts"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        script = f'mount --bind {file} /etc/hosts && exec "$@"'
        return workers.start("unshare", "--mount", "--net", "sh", "-c", script, "sh")

    found = [start(container) for container in _IDS]
    assert found[0] != found[1]
    workers.kill_all()
    assert [start(container) for container in _IDS] == found
