"""Defines the faults. After each fault, all parts of the stack run again."""

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from loadtests.stack.stack import Stack


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault: its name and the function that causes it. `run` blocks until the fault is over.
    `seconds`: how long the outage lasts."""

    name: str
    run: Callable[[Stack, float], None]


def _kill_consumer(stack: Stack, seconds: float) -> None:
    stack.consumers[0].kill()
    time.sleep(seconds / 2)
    stack.add_consumer().wait_ready()


def _stop_consumer(stack: Stack, seconds: float) -> None:
    stack.consumers[1].stop()
    time.sleep(seconds / 2)
    stack.consumers[1].start()
    stack.consumers[1].wait_ready()


def _kill_broker(stack: Stack, seconds: float) -> None:
    stack.kafka.stop(signal.SIGKILL)
    time.sleep(seconds / 2)
    stack.kafka.start()


def _empty_redis(stack: Stack, seconds: float) -> None:
    stack.redis.stop()
    time.sleep(seconds / 2)
    stack.redis.start()


def _refuse_inserts(stack: Stack, seconds: float) -> None:
    stack.clickhouse.set_fault("503", seconds)
    time.sleep(seconds)


def _cut_inserts_before(stack: Stack, seconds: float) -> None:
    stack.clickhouse.set_fault("cut_before", seconds, every=2)
    time.sleep(seconds)


def _cut_inserts_after(stack: Stack, seconds: float) -> None:
    stack.clickhouse.set_fault("cut_after", seconds, every=2)
    time.sleep(seconds)


def _kill_clickhouse(stack: Stack, seconds: float) -> None:
    stack.clickhouse.stop(signal.SIGKILL)
    time.sleep(seconds / 2)
    stack.clickhouse.start()


def _kill_edge(stack: Stack, seconds: float) -> None:
    stack.edges[0].kill()
    time.sleep(seconds / 2)
    stack.edges[0].start()
    stack.edges[0].wait_ready()


def _stop_edge(stack: Stack, seconds: float) -> None:
    stack.edges[1].stop()
    time.sleep(seconds / 2)
    stack.edges[1].start()
    stack.edges[1].wait_ready()


def faults(longest: float) -> Sequence[tuple[Fault, float]]:
    """Return all faults, each with its length in seconds. The outage of ClickHouse lasts `longest`
    seconds."""
    short = longest / 3
    return [
        (Fault("a consumer is killed, another joins", _kill_consumer), short),
        (Fault("a consumer gets SIGTERM and comes back", _stop_consumer), short),
        (Fault("the broker is killed and restarted", _kill_broker), short),
        (Fault("Redis is restarted empty", _empty_redis), short),
        (Fault("ClickHouse answers 503", _refuse_inserts), longest),
        (Fault("ClickHouse cuts inserts before it has them", _cut_inserts_before), short),
        (Fault("ClickHouse cuts inserts after it has them", _cut_inserts_after), short),
        (Fault("ClickHouse is killed and restarted", _kill_clickhouse), short),
        (Fault("an edge is killed", _kill_edge), short),
        (Fault("an edge gets SIGTERM", _stop_edge), short),
    ]
