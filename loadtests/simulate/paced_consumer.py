"""A child process that appends batches at a rate, and measures how long each batch takes until it is stored in
ClickHouse.

It uses the embedded log, which has one partition, so batches are stored in the order in which they were appended.
"""

import asyncio
import json
import sys
import time
from collections import deque
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import uvloop

from consumers.assemble import assemble_loop
from consumers.loop import ConsumerLoop
from consumers.transforms.telemetry_topic import TelemetryTopic
from loadtests.bench.child_process import send_result
from loadtests.bench.consumer_process import BODIES, append_batch, open_log
from loadtests.bench.figures import percentile
from loadtests.bench.payloads import make_bodies
from pipeline_contracts.settings import Settings
from storage_backends.column_store.apply_schema import apply_schema
from storage_backends.column_store.chdb_embedded import open_chdb
from storage_backends.event_log.interface import EventLog
from wiring.embedded.allocator import keep_freed_memory

_TICK_SECONDS = 0.005
_WARM_UP_SECONDS = 3.0


class _Lags:
    """The seconds from the acknowledgement of each batch until the batch is stored."""

    def __init__(self, loop: ConsumerLoop) -> None:
        self.seconds: list[float] = []
        self._loop = loop
        self._appended: deque[float] = deque()
        self._stored = 0

    def appended(self, batches: int) -> None:
        self._appended.extend([time.perf_counter()] * batches)

    async def watch(self) -> None:
        while True:
            now = time.perf_counter()
            while self._stored < self._loop.metrics.records and self._appended:
                self.seconds.append(now - self._appended.popleft())
                self._stored += 1
            await asyncio.sleep(_TICK_SECONDS)


async def _run(folder: Path, per_second: float, batch_events: int, seconds: float) -> None:
    async with AsyncExitStack() as exits:
        transform = TelemetryTopic()
        log, reader = await open_log(exits, folder, None, transform.topic)
        store = await open_chdb(folder / "clickhouse")
        exits.push_async_callback(store.close)
        await apply_schema(store)
        loop = assemble_loop(Settings(), transform, consumer=reader, log=log, store=store)
        lags = _Lags(loop)
        working, watching = asyncio.create_task(loop.run()), asyncio.create_task(lags.watch())
        await _append(log, lags, per_second / batch_events, batch_events, seconds)
        loop.stop.set()
        await working
        watching.cancel()
        send_result(
            {
                "mean_s": sum(lags.seconds) / len(lags.seconds),
                "longest_s": percentile(lags.seconds, 0.99),
            }
        )


async def _append(
    log: EventLog, lags: _Lags, batches_per_second: float, batch_events: int, seconds: float
) -> None:
    bodies = make_bodies(BODIES, batch_events)
    begun, number, is_warm = time.perf_counter(), 0, False
    while (passed := time.perf_counter() - begun) < _WARM_UP_SECONDS + seconds:
        if passed > _WARM_UP_SECONDS and not is_warm:
            is_warm = True
            lags.seconds.clear()
        due = int(passed * batches_per_second)
        if due > number:
            await asyncio.gather(
                *(append_batch(log, bodies[n % BODIES], n, batch_events) for n in range(number, due))
            )
            lags.appended(due - number)
            number = due
        await asyncio.sleep(_TICK_SECONDS)


def main() -> None:
    """Append batches, consume them, and report. The argument is a JSON object: folder, per_second (events),
    batch_events, seconds."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    keep_freed_memory()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(Path(given["folder"]), given["per_second"], given["batch_events"], given["seconds"]))


if __name__ == "__main__":
    main()
