"""Checks that every batch that was acknowledged with a 202 is stored exactly once and completely."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import aiohttp
import orjson

_PATIENCE_SECONDS = 120.0
_RECEIPTS_AT_ONCE = 16
_STORED = """
    SELECT batch_id, count() AS events, uniqExact(position) AS positions FROM pharos.telemetry_events
    WHERE startsWith(batch_id, {run:String}) GROUP BY batch_id FORMAT JSONCompactEachRow
"""


@dataclass(slots=True)
class Verdict:
    """The numbers of acknowledged batches and events, and the batches that are not stored exactly once."""

    batches: int
    events: int
    missing: list[str] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Return True if every acknowledged batch is stored exactly once."""
        return not (self.missing or self.incomplete or self.doubled)

    def document(self) -> dict[str, object]:
        """Return the verdict in its JSON form."""
        return {
            "acknowledged_batches": self.batches,
            "acknowledged_events": self.events,
            "missing": len(self.missing),
            "incomplete": len(self.incomplete),
            "doubled": len(self.doubled),
            "examples": [*self.missing[:3], *self.incomplete[:3], *self.doubled[:3]],
        }

    def text(self) -> str:
        """Return the verdict as text for people."""
        if self.holds:
            return f"Every 202 is stored once: {self.batches:,} batches, {self.events:,} events."
        return (
            f"Of {self.batches:,} acknowledged batches {len(self.missing)} are missing, {len(self.incomplete)} are "
            f"incomplete, {len(self.doubled)} are stored more than once: {self.document()['examples']}"
        )


def judge(acknowledged: Mapping[str, int], stored: Mapping[str, tuple[int, int]]) -> Verdict:
    """Compare acknowledged with stored batches. `acknowledged`: number of events by batch. `stored`: (rows, different
    positions) by batch."""
    verdict = Verdict(len(acknowledged), sum(acknowledged.values()))
    for batch, events in acknowledged.items():
        rows, positions = stored.get(batch, (0, 0))
        if rows == 0:
            verdict.missing.append(batch)
        elif positions != events:
            verdict.incomplete.append(batch)
        elif rows != events:
            verdict.doubled.append(batch)
    # A batch that was sent but never acknowledged may be stored, but not more than once.
    verdict.doubled += [
        batch
        for batch, (rows, positions) in stored.items()
        if batch not in acknowledged and rows != positions
    ]
    return verdict


async def check_in_clickhouse(
    url: str, run: str, acknowledged: Mapping[str, int]
) -> tuple[Verdict, dict[str, tuple[int, int]]]:
    """Count the rows of every batch of the run in the column store, until nothing is missing or the time is up. Return
    the verdict, and (rows, different positions) by batch."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    async with aiohttp.ClientSession() as session:
        while True:
            async with session.post(url, data=_STORED, params={"param_run": f"{run}-"}) as answer:
                answer.raise_for_status()
                rows = [orjson.loads(line) for line in (await answer.read()).splitlines()]
            stored = {batch: (int(n), int(p)) for batch, n, p in rows}
            verdict = judge(acknowledged, stored)
            if not (verdict.missing or verdict.incomplete) or time.monotonic() > deadline:
                return verdict, stored
            await asyncio.sleep(0.5)


async def check_by_receipts(
    base_url: str, key: str, acknowledged: Mapping[str, int], receipts: Mapping[str, str]
) -> Verdict:
    """Read the receipt of every batch. Used if the column store cannot be reached. `receipts`: receipt ID by batch."""
    stored: dict[str, tuple[int, int]] = {}
    deadline = time.monotonic() + _PATIENCE_SECONDS
    waiting = list(acknowledged)
    limit = asyncio.Semaphore(_RECEIPTS_AT_ONCE)
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"}) as session:

        async def read(batch: str) -> None:
            async with limit, session.get(f"{base_url}/v1/ingest/receipts/{receipts[batch]}") as answer:
                if answer.status == 200:
                    receipt = (await answer.json())["data"]
                    if receipt["status"] == "stored":
                        stored[batch] = (receipt["stored"], receipt["stored"])

        while waiting and time.monotonic() < deadline:
            await asyncio.gather(*map(read, waiting))
            waiting = [batch for batch in waiting if batch not in stored]
    return judge(acknowledged, stored)
