"""Workers and queues of RQ are reported correctly, with a real Redis."""

import signal
from collections.abc import Iterator
from datetime import timedelta

import pytest
import redis
import rq

from tests.clients.python.queues import jobs
from tests.clients.python.queues.conftest import WatchedQueue


@pytest.fixture
def broker(queue: WatchedQueue) -> Iterator[rq.Queue]:
    """Return the queue as a web process has it, to enqueue jobs."""
    with redis.Redis.from_url(queue.redis_url) as connection:
        yield rq.Queue("jobs", connection=connection)


def start_worker(queue: WatchedQueue, kind: str = "pharos_client.rq.PharosWorker") -> None:
    queue.start_worker(
        *("rq.cli", "worker", "--worker-class", kind, "--url", queue.redis_url, "jobs", "unwatched")
    )


def test_figures_and_workers(queue: WatchedQueue, broker: rq.Queue) -> None:
    quick = "tests.clients.python.queues.rq_worker.QuickWorker"
    start_worker(queue, quick)
    queue.wait_for_workers(idle=1)
    start_worker(queue, quick)
    queue.wait_for_workers(idle=2)
    broker.enqueue(jobs.fail)
    queue.wait_for_figures(pending=0, failed=1)
    running = broker.enqueue(jobs.wait_for_release, "one")
    for _ in range(4):
        broker.enqueue(jobs.wait_for_release, "others")
    broker.enqueue_in(timedelta(hours=1), jobs.fail)
    queue.wait_for_figures(pending=3, reserved=2, delayed=1, failed=1)
    shown = queue.wait_for_workers(busy=2)
    assert running.id in {worker["job_id"] for worker in shown["worker_list"]}
    queue.wait_for(lambda shown: shown["oldest_wait_seconds"] >= 1)
    queue.release("one")
    queue.release("others")
    queue.wait_for_figures(pending=0, reserved=0, delayed=1)
    queue.processes[0].send_signal(signal.SIGTERM)
    assert queue.processes[0].wait(60) == 0
    queue.wait_for_workers(idle=1, stopped=1)
    # The remaining worker has taken over the snapshots.
    broker.enqueue_in(timedelta(hours=1), jobs.fail)
    queue.wait_for_figures(delayed=2)


def test_a_killed_worker_is_lost_with_its_job_until_it_is_back(queue: WatchedQueue, broker: rq.Queue) -> None:
    start_worker(queue)
    queue.wait_for_workers(idle=1)
    job = broker.enqueue(jobs.wait_for_release, "never")
    busy = queue.wait_for_workers(busy=1)["worker_list"][0]
    queue.kill_all()
    queue.let_six_minutes_pass()
    (lost,) = queue.wait_for_workers(lost=1)["worker_list"]
    assert (lost["worker_id"], lost["job_id"]) == (busy["worker_id"], job.id)
    start_worker(queue)
    (back,) = queue.wait_for_workers(idle=1)["worker_list"]
    assert back["worker_id"] == lost["worker_id"] and back["sequence"] > lost["sequence"]


def test_events_of_a_job_are_sent_before_its_process_ends(queue: WatchedQueue, broker: rq.Queue) -> None:
    start_worker(queue)
    broker.enqueue(jobs.record, "from a job")
    found = queue.platform.wait_for_events("jobs", 1)
    assert found[0]["title"] == "from a job"
