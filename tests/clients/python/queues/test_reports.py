"""Reports of workers and queues, without a queue library."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pharos_client import diagnostics, worker_reports
from pharos_client.queue_monitors import read_queue_monitors
from pharos_client.queue_snapshots import Figures, QueueSnapshots
from pharos_client.worker_reports import WorkerReports
from tests.clients.python.scripted_server import Received, Reply, ScriptedServer, scripted_server
from tests.support.waits import wait_until

_SOURCE = Path(__file__).parents[4] / "clients" / "python" / "src"


@pytest.fixture(autouse=True)
def warns_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "_last", {})


def bodies(server: ScriptedServer, path: str) -> list[dict[str, Any]]:
    return [
        json.loads(request.body) for request in server.requests if request.path == f"/api/v1/queues/{path}"
    ]


def test_a_worker_of_two_queues_is_busy_in_the_one_of_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_reports, "_SHORTEST_PAUSE", 0.0)
    with scripted_server() as server:
        reports = WorkerReports(read_queue_monitors({"a": "1:key-a", "b": "2:key-b"}, server.url))
        reports.set_idle("w", ["a", "b", "unwatched"])
        wait_until(lambda: len(server.requests) == 2)
        job = str(uuid.uuid4())
        reports.set_busy("w", ["a", "b"], job, "a")
        wait_until(lambda: len(server.requests) == 3)
        reports.stop()
        of_a, of_b = bodies(server, "1/workers"), bodies(server, "2/workers")
    assert [(body["status"], body.get("job_id")) for body in of_a] == [
        ("idle", None),
        ("busy", job),
        ("stopped", None),
    ]
    assert [body["status"] for body in of_b] == ["idle", "stopped"]
    sequences = [body["sequence"] for body in of_a]
    assert sequences == sorted(set(sequences)) and len({body["worker_id"] for body in [*of_a, *of_b]}) == 1
    assert server.requests[0].headers["authorization"] in ("Bearer key-a", "Bearer key-b")


def test_short_jobs_are_not_reported_one_by_one() -> None:
    with scripted_server() as server:
        reports = WorkerReports(read_queue_monitors({"a": "1:k"}, server.url))
        number, ends_at = 0, time.monotonic() + 0.3
        while time.monotonic() < ends_at:
            number += 1
            reports.set_busy("w", ["a"], f"job {number}", "a")
            # Let the sending thread run.
            time.sleep(0.002)
            reports.set_idle("w", ["a"])
        reports.stop()
        sent = bodies(server, "1/workers")
        assert len(sent) < 10 and sent[-1]["status"] == "stopped"
        # A job ID that is not a UUID is converted to a UUID.
        assert all(uuid.UUID(body["job_id"]) for body in sent if body["status"] == "busy")


def test_a_silent_worker_is_reported_again_before_it_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_reports, "_LONGEST_SILENCE", 0.02)
    with scripted_server() as server:
        reports = WorkerReports(read_queue_monitors({"a": "1:k"}, server.url))
        reports.set_idle("w", ["a"])
        wait_until(lambda: len(server.requests) >= 4)
        reports.stop()
        assert {body["status"] for body in bodies(server, "1/workers")[:4]} == {"idle"}


def test_a_queue_whose_key_is_revoked_delays_no_other() -> None:
    def respond(_number: int, request: Received) -> Reply:
        return Reply(401) if "/queues/1/" in request.path else Reply()

    with scripted_server(respond) as server:
        monitors = read_queue_monitors({"revoked": "1:k", "other": "2:k"}, server.url)
        reports = WorkerReports(monitors)
        reports.set_idle("w", ["revoked", "other"])
        snapshots = QueueSnapshots(monitors, lambda: {"revoked": Figures(1), "other": Figures(2)}, 0.05)
        wait_until(lambda: len(bodies(server, "2/snapshots")) >= 3 and bodies(server, "2/workers"))
        snapshots.stop()
        reports.stop(0.2)


def test_snapshots_of_an_outage_are_sent_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter(range(10**6))

    def respond(number: int, _request: Received) -> Reply:
        return Reply(503) if number < 5 else Reply()

    with scripted_server(respond) as server:
        monitors = read_queue_monitors({"a": "1:k"}, server.url)
        snapshots = QueueSnapshots(monitors, lambda: {"a": Figures(next(readings), failed=0)}, 0.05)
        wait_until(lambda: len(server.requests) >= 16)
        snapshots.stop()
        accepted = [json.loads(request.body) for request in server.accepted()]
    assert [body["pending"] for body in accepted] == list(range(len(accepted)))
    assert len({body["snapshot_id"] for body in accepted}) == len(accepted)
    assert all(body["observed_at"].endswith("Z") for body in accepted)
    assert "delayed" not in accepted[0] and accepted[0]["failed"] == 0


def test_one_process_of_a_machine_reads_and_another_takes_over() -> None:
    name = uuid.uuid4().hex
    program = (
        "import sys\n"
        "from pharos_client.process_slots import claim_slot, try_claim\n"
        f"print(claim_slot('worker {name}'), try_claim('reader {name}'), flush=True)\n"
        "sys.stdin.read()\n"
    )

    def start() -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(_SOURCE)},
        )

    def claim(process: "subprocess.Popen[str]") -> str:
        assert process.stdout is not None
        return process.stdout.readline().strip()

    processes = [start() for _ in range(3)]
    try:
        claimed = [claim(process).split() for process in processes]
        assert sorted(number for number, _ in claimed) == ["0", "1", "2"]
        assert sorted(is_reader for _, is_reader in claimed) == ["False", "False", "True"]
        for process in processes:
            process.kill()
            process.wait()
        processes += [start()]
        # The locks of killed processes are free.
        assert claim(processes[-1]) == "0 True"
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_reports_nothing() -> None:
    with scripted_server() as server:
        reports = WorkerReports(read_queue_monitors({"a": "1:k"}, server.url))
        child = os.fork()
        if child == 0:
            reports.set_busy("w", ["a"], "j", "a")
            begin = time.monotonic()
            reports.stop(30)
            os._exit(0 if time.monotonic() - begin < 10 else 1)
        assert os.waitpid(child, 0)[1] == 0
        reports.stop()
        assert server.requests == []


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    def set_variables(url: str, queues: str) -> None:
        monkeypatch.setenv("PHAROS_URL", url)
        monkeypatch.setenv("PHAROS_QUEUES", queues)

    yield set_variables


def test_queues_from_the_environment(environment: Callable[[str, str], None]) -> None:
    environment("https://pharos.example/api/", " mail=2:key-2 , default=1:key-1,")
    monitors = read_queue_monitors()
    assert {name: (m.api, m.number, m.key) for name, m in monitors.items()} == {
        "mail": ("https://pharos.example/api", 2, "key-2"),
        "default": ("https://pharos.example/api", 1, "key-1"),
    }
    assert "key-2" not in repr(monitors["mail"])
    environment("", "mail=2:key")
    assert read_queue_monitors() == {}
    environment("https://pharos.example", "")
    assert read_queue_monitors() == {}
    for wrong in ("mail=key-secret", "mail", "mail=x:key-secret"):
        environment("https://pharos.example", f"{wrong},good=1:key")
        assert list(read_queue_monitors()) == ["good"]
        with pytest.raises(ValueError, match="'mail' needs NUMBER:KEY") as error:
            read_queue_monitors({"mail": wrong.partition("=")[2]})
        assert "secret" not in str(error.value)
