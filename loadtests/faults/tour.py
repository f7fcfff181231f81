"""The fault tour: it sends load, causes all faults in turn, and checks the stored events."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from loadtests.check_stored import Verdict, check_in_clickhouse, judge
from loadtests.faults.explain import explain
from loadtests.faults.faults import faults
from loadtests.faults.sender import EVENTS, Phase, Sender
from loadtests.stack.stack import Stack

# Raise the rate limit of the account, which this test must not reach.
SETTINGS = {"PHAROS_INGEST_RATE": "1000000", "PHAROS_INGEST_BURST": "2000000"}
_SETTLE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Result:
    """The results of a tour: all phases, and the check of the acknowledged events."""

    phases: list[Phase]
    verdict: Verdict
    by_phase: list[Verdict]
    explanation: str
    """The output of `explain`. Empty if every acknowledged batch is stored once."""


async def run_tour(
    stack: Stack,
    *,
    events: int,
    per_second: float,
    longest: float,
    report_progress: Callable[[str], None],
    only: Collection[str] | None = None,
) -> Result:
    """Send `events` at `per_second` during a sequence of faults, then check every batch.

    `only`: the names of the faults to cause; the default is all. If all events are sent before the faults are over,
    the last faults happen without load, so choose `events` large enough.
    """
    credentials = stack.credentials
    sender = Sender(credentials["base_url"], credentials["ingest_key"], events // EVENTS, per_second / EVENTS)
    sending = asyncio.create_task(sender.run())
    await asyncio.sleep(_SETTLE_SECONDS)
    for fault, seconds in faults(longest):
        if only is not None and fault.name not in only:
            continue
        report_progress(fault.name)
        with sender.watching():
            sender.enter(fault.name)
            await asyncio.to_thread(fault.run, stack, seconds)
            await asyncio.sleep(_SETTLE_SECONDS)
    sender.enter("none")
    report_progress("no more faults; sending the rest")
    await sending
    report_progress("checking the stored events")
    acknowledged = sender.acknowledged
    verdict, stored = await check_in_clickhouse(credentials["clickhouse_url"], "bench", acknowledged)
    by_phase = [judge(phase.acknowledged, _only(stored, phase)) for phase in sender.phases]
    explanation = ""
    if not verdict.holds:
        explanation = await explain(stack)
        report_progress(explanation)
    return Result(sender.phases, verdict, by_phase, explanation)


def _only(stored: Mapping[str, tuple[int, int]], phase: Phase) -> dict[str, tuple[int, int]]:
    return {batch: rows for batch, rows in stored.items() if batch in phase.acknowledged}
