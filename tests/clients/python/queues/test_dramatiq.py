"""Workers and queues of Dramatiq are reported correctly, with a real Redis."""

import signal
from typing import Any

import dramatiq
import pytest
from dramatiq.brokers.redis import RedisBroker

from tests.clients.python.queues.conftest import WatchedQueue


@pytest.fixture
def broker(queue: WatchedQueue) -> Any:
    """Return the broker as a web process has it, to enqueue jobs."""
    broker = RedisBroker(url=queue.redis_url)
    yield broker
    broker.close()
    broker.client.close()


def send(broker: Any, actor: str, *arguments: str, delay: int | None = None) -> str:
    """Enqueue a job; return its ID."""
    message = dramatiq.Message(queue_name="jobs", actor_name=actor, args=arguments, kwargs={}, options={})
    broker.declare_queue("jobs")
    identifier: str = broker.enqueue(message, delay=delay).message_id
    return identifier


def start_worker(queue: WatchedQueue, processes: int) -> None:
    queue.start_worker(
        *(
            "dramatiq",
            "--processes",
            str(processes),
            "--threads",
            "1",
            "tests.clients.python.queues.dramatiq_app",
        ),
    )


def test_figures_and_workers(queue: WatchedQueue, broker: Any) -> None:
    start_worker(queue, 2)
    queue.wait_for_workers(idle=2)
    send(broker, "fail")
    queue.wait_for_figures(pending=0, failed=1)
    running = send(broker, "wait_for_release", "one")
    queue.wait_for_figures(reserved=1)
    for _ in range(6):
        send(broker, "wait_for_release", "others")
    send(broker, "fail", delay=3_600_000)
    # Two processes with one thread each run a job; others were fetched, and wait in their memory.
    queue.wait_for_figures(pending=5, reserved=2, delayed=1, failed=1)
    shown = queue.wait_for_workers(busy=2)
    assert running in {worker["job_id"] for worker in shown["worker_list"]}
    queue.release("one")
    queue.release("others")
    queue.wait_for_figures(pending=0, reserved=0, delayed=1)
    queue.processes[0].send_signal(signal.SIGTERM)
    assert queue.processes[0].wait(60) == 0
    queue.wait_for_workers(stopped=2)


def test_a_killed_worker_is_lost_with_its_job_until_it_is_back(queue: WatchedQueue, broker: Any) -> None:
    start_worker(queue, 1)
    queue.wait_for_workers(idle=1)
    job = send(broker, "wait_for_release", "never")
    busy = queue.wait_for_workers(busy=1)["worker_list"][0]
    queue.kill_all()
    queue.let_six_minutes_pass()
    (lost,) = queue.wait_for_workers(lost=1)["worker_list"]
    assert (lost["worker_id"], lost["job_id"]) == (busy["worker_id"], job)
    start_worker(queue, 1)
    (back,) = queue.wait_for_workers(idle=1)["worker_list"]
    assert back["worker_id"] == lost["worker_id"] and back["sequence"] > lost["sequence"]
