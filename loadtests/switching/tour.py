"""Runs the operations one after the other. Each has a load of its own."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from loadtests.bench.process_usage import cpu_seconds
from loadtests.switching.fronts import DIRECT, Front
from loadtests.switching.installation import Installation, installation
from loadtests.switching.operations import Operation, Versions, prepare
from loadtests.switching.steady_load import Pace, steady_load
from loadtests.switching.verdict import Verdict, judge


async def run_tour(
    operations: Sequence[Operation], pace: Pace, *, on_begin: Callable[[str], None], front: Front = DIRECT
) -> list[Verdict]:
    """Run all operations on one new installation. Return a verdict for each. Raises `SwitchingFailed`."""
    on_begin("starting the platform")
    async with installation(front) as shop:
        versions = await prepare(shop)
        verdicts = []
        for operation in operations:
            on_begin(operation.name)
            verdicts.append(await _run_operation(shop, versions, operation, pace))
        return verdicts


async def _run_operation(shop: Installation, versions: Versions, operation: Operation, pace: Pace) -> Verdict:
    if operation.replicas is not None:
        await shop.scale(operation.host, operation.replicas)
    ended_before = await _restarted_processes(shop, operation.host)
    before = cpu_seconds(shop.process.pid)
    async with steady_load(shop.port, operation.host, pace) as load:
        started = time.perf_counter()
        expected = await operation.act(shop, versions)
        seconds = time.perf_counter() - started
    used = cpu_seconds(shop.process.pid) - before
    ended = await _restarted_processes(shop, operation.host) - ended_before
    if ended and not expected.kills:
        expected = replace(expected, note=f"{expected.note} ({', '.join(sorted(ended))})".strip())
    return judge(operation.name, expected, load.calls, seconds, used)


async def _restarted_processes(shop: Installation, host: str) -> set[str]:
    """Return the processes that have ended by themselves and were restarted, with their exits."""
    instances = (await shop.runtime(host))["instances"]
    return {
        f"{one['process']}.{one['number']} of deployment {one['deployment_id']} {one['last_exit']}"
        for one in instances
        if one["restarts"]
    }
