"""Workers and queues of Celery are reported correctly, with a real broker."""

import signal
import uuid
from typing import Any

import pytest

from tests.clients.python.queues.conftest import WatchedQueue

_WORKER = (
    *("celery", "-A", "tests.clients.python.queues.celery_app", "worker", "--loglevel", "INFO"),
    *("--without-gossip", "--without-mingle"),
)


@pytest.fixture
def app(queue: WatchedQueue, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the application as a web process has it, to enqueue jobs."""
    from celery import Celery

    from pharos_client.celery import monitor

    app = Celery("jobs", broker=queue.redis_url)
    app.conf.task_default_queue = "jobs"
    monkeypatch.delenv("PHAROS_QUEUES", raising=False)
    monitor(app)
    return app


def test_figures_and_workers(queue: WatchedQueue, app: Any) -> None:
    queue.start_worker(*_WORKER, "--concurrency", "2", "--hostname", "first@test")
    queue.wait_for_workers(idle=2)
    for _ in range(3):
        app.send_task("fail")
    queue.wait_for_figures(pending=0, failed=3)
    app.send_task("wait_for_release", ["later"], countdown=3600)
    queue.wait_for_figures(delayed=1)
    running = str(uuid.uuid4())
    app.send_task("wait_for_release", ["one"], task_id=running)
    for number in range(11):
        app.send_task("wait_for_release", ["others"], task_id=f"job-{number}")
    # Two jobs run, and ten wait, most of them in the worker's memory.
    shown = queue.wait_for_figures(pending=10, reserved=2, delayed=1, failed=3)
    shown = queue.wait_for_workers(busy=2)
    assert running in {worker["job_id"] for worker in shown["worker_list"]}
    queue.wait_for(lambda shown: 1 <= (shown["oldest_wait_seconds"] or 0) < 60)
    queue.release("one")
    queue.release("others")
    queue.wait_for_figures(pending=0, reserved=0, delayed=1)
    queue.wait_for_workers(idle=2)
    queue.processes[0].send_signal(signal.SIGTERM)
    assert queue.processes[0].wait(60) == 0
    queue.wait_for_workers(stopped=2)


def test_a_killed_worker_is_lost_with_its_job_until_it_is_back(queue: WatchedQueue, app: Any) -> None:
    worker = queue.start_worker(*_WORKER, "--concurrency", "1", "--hostname", "first@test")
    queue.wait_for_workers(idle=1)
    running = str(uuid.uuid4())
    app.send_task("wait_for_release", ["never"], task_id=running)
    busy = queue.wait_for_workers(busy=1)["worker_list"][0]
    worker.kill()
    worker.wait()
    queue.let_six_minutes_pass()
    (lost,) = queue.wait_for_workers(lost=1)["worker_list"]
    assert (lost["worker_id"], lost["job_id"]) == (busy["worker_id"], running)
    queue.start_worker(*_WORKER, "--concurrency", "1", "--hostname", "first@test")
    (back,) = queue.wait_for_workers(idle=1)["worker_list"]
    assert back["worker_id"] == lost["worker_id"] and back["sequence"] > lost["sequence"]


def test_a_killed_process_of_the_pool_is_replaced_and_its_job_counted(queue: WatchedQueue, app: Any) -> None:
    queue.start_worker(*_WORKER, "--concurrency", "1", "--hostname", "first@test")
    queue.wait_for_workers(idle=1)
    app.send_task("wait_for_release", ["never"])
    queue.wait_for_workers(busy=1)
    import psutil

    (child,) = psutil.Process(queue.processes[0].pid).children()
    child.kill()
    queue.wait_for_figures(failed=1, reserved=0)
    queue.wait_for_workers(idle=1)


@pytest.mark.parametrize(("pool", "running"), [("solo", 1), ("threads", 2)])
def test_a_worker_without_processes_is_one(queue: WatchedQueue, app: Any, pool: str, running: int) -> None:
    queue.start_worker(*_WORKER, "--pool", pool, "--concurrency", "2", "--hostname", "one@test")
    queue.wait_for_workers(idle=1)
    for _ in range(3):
        app.send_task("wait_for_release", ["one"])
    queue.wait_for_workers(busy=1)
    queue.wait_for_figures(pending=3 - running, reserved=running)
    queue.release("one")
    queue.wait_for_figures(pending=0, reserved=0)
