"""The scheduled jobs of the demo shop: their heartbeats, their past runs, and the pings of later ones.

The edge stamps a signal with its time of receipt, so no request can report a run of last week. The consumers' own
transform applies past pings as if they had been received then, and computes runs and states from them.
"""

import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import msgspec

from consumers.transforms.heartbeats_topic import HeartbeatsTopic
from demo.api_client import ApiClient
from demo.ledger import Ledger
from pipeline_contracts import topics
from pipeline_contracts.monitors import MonitorMeta, Ping, Signal, encode_monitor_meta
from pipeline_contracts.records import LogRecord
from pipeline_contracts.schedules import Schedule, next_due
from pipeline_contracts.times import DAY_MS, to_epoch_ms
from storage_backends.monitor_states.interface import MonitorStates, Progress

PAST_RUNS = "past runs"
"""Name of the part of the ledger after which jobs may run."""
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Job:
    """A scheduled job. `fails_ago`: the past runs that failed, counted back from the last one (0)."""

    name: str
    schedule: Schedule
    grace_seconds: int
    max_runtime_seconds: int
    typical_seconds: float
    past_days: float
    output: str
    fails_ago: tuple[int, ...] = ()
    failure: str = ""
    exit_status: int = 1
    retry_seconds: int = 0
    """Time after which somebody runs a failed job again by hand; 0 if nobody does."""
    is_broken: bool = False
    """True if all runs from the last past run on fail."""


_OSLO = "Europe/Oslo"
JOBS = (
    Job(
        "nightly-backup",
        Schedule(cron="30 2 * * *", timezone=_OSLO),
        1800,
        7200,
        840.0,
        45,
        "pg_dump: 41 tables, 2.3 GB\nupload: lanterns-backup, verified\n",
        fails_ago=(0, 17),
        failure="pg_dump: 41 tables, 2.3 GB\nupload: write /mnt/backup/shop.dump: No space left on device\n",
        exit_status=28,
        retry_seconds=3 * 3600,
    ),
    Job(
        "sync-stock",
        Schedule(300),
        120,
        240,
        24.0,
        2,
        "1,204 products compared, 3 changed\n",
        fails_ago=(211,),
        failure="warehouse answered 503\n",
    ),
    Job(
        "refresh-search-index",
        Schedule(3600),
        600,
        1800,
        190.0,
        10,
        "products: 1,204 documents, 4 languages\n",
        fails_ago=(60, 141),
        failure="index products: lock is held by another writer\n",
        exit_status=75,
    ),
    Job(
        "export-accounting",
        Schedule(cron="0 5 * * *", timezone=_OSLO),
        3600,
        3600,
        65.0,
        30,
        "218 bookings sent\n",
        fails_ago=(0, 1),
        failure="POST https://accounting.example/bookings: 401 token expired\n",
        is_broken=True,
    ),
    Job(
        "send-newsletter",
        Schedule(cron="0 8 * * 4", timezone=_OSLO),
        3600,
        7200,
        1310.0,
        60,
        "4,812 letters handed to the mail server\n",
    ),
)


async def add_heartbeats(owner: ApiClient, ledger: Ledger, environment_id: str) -> None:
    """Create the heartbeats. The ledger stores the number and the paths of the ping URL of each under its name."""
    for job in JOBS:
        part = f"heartbeat {job.name}"
        if ledger.has(part):
            continue
        schedule = job.schedule
        timing = (
            {"period_seconds": schedule.period_seconds}
            if schedule.cron is None
            else {"cron": schedule.cron, "timezone": schedule.timezone}
        )
        created = await owner.post(
            f"/v1/environments/{environment_id}/heartbeats",
            {
                "name": job.name,
                **timing,
                "grace_seconds": job.grace_seconds,
                "max_runtime_seconds": job.max_runtime_seconds,
            },
        )
        ledger.note(part, {"id": created["id"], "urls": created["ping_key"]["urls"]})


@dataclass(frozen=True, slots=True)
class PastPing:
    """A ping in the past. `at_ms` is the time of its receipt."""

    at_ms: int
    job: Job
    run_id: uuid.UUID
    signal: Signal
    exit_status: int | None = None
    output: str | None = None


async def apply_past_runs(
    states: MonitorStates, ledger: Ledger, environment_id: str, began: datetime
) -> None:
    """Apply the pings of all past runs. Repeating it changes nothing: the runs have the same IDs.

    In one transaction, because between two transactions a scan would find that runs are missing.
    """
    topic = HeartbeatsTopic(states)
    pings = [ping for job in JOBS for ping in list_past_pings(job, began)]
    reports = []
    for ping in sorted(pings, key=lambda ping: ping.at_ms):
        number: int = ledger.get(f"heartbeat {ping.job.name}")["id"]
        meta = encode_monitor_meta(MonitorMeta("ping", number, environment_id, ping.at_ms))
        ping_id = uuid.uuid5(ping.run_id, ping.signal)
        value = _encode(Ping(ping_id, ping.signal, ping.run_id, ping.exit_status, ping.output))
        reports.append(topic.decode(LogRecord(0, b"", meta, value)))
    # The stored progress never goes back, so this time changes nothing.
    await topic.apply_reports(reports, Progress(topics.HEARTBEATS, 0, 0), "demo")


class PastOutage(NamedTuple):
    """From a failed run to the next successful one, in milliseconds since 1970."""

    job: Job
    down_ms: int
    up_ms: int
    last_success_ms: int | None


def list_past_outages(began: datetime) -> Iterator[PastOutage]:
    """Yield the outages that ended before `began`."""
    for job in JOBS:
        down_ms, success_ms = None, None
        for ping in sorted(list_past_pings(job, began), key=lambda ping: ping.at_ms):
            if ping.signal == "failure":
                down_ms = down_ms or ping.at_ms
            elif ping.signal == "success":
                if down_ms is not None:
                    yield PastOutage(job, down_ms, ping.at_ms, success_ms)
                down_ms, success_ms = None, ping.at_ms


def list_past_pings(job: Job, began: datetime) -> Iterator[PastPing]:
    """Yield the pings of the job's runs that ended before `began`."""
    rng = random.Random(f"runs of {job.name}")
    until_ms = to_epoch_ms(began)
    due_ms = until_ms - round(job.past_days * DAY_MS)
    starts: list[tuple[int, int]] = []
    while True:
        due_ms = next_due(job.schedule, due_ms)
        start_ms = due_ms + rng.randint(200, 4000)
        end_ms = start_ms + round(job.typical_seconds * rng.lognormvariate(0.0, 0.22) * 1000)
        if end_ms >= until_ms:
            break
        starts.append((start_ms, end_ms))
    for ago, (start_ms, end_ms) in zip(range(len(starts) - 1, -1, -1), starts, strict=True):
        fails = ago in job.fails_ago
        yield from _run(job, rng, start_ms, end_ms, fails=fails)
        again_ms = end_ms + job.retry_seconds * 1000
        if fails and job.retry_seconds and again_ms + end_ms - start_ms < until_ms:
            yield from _run(job, rng, again_ms, again_ms + end_ms - start_ms, fails=False)


def _run(job: Job, rng: random.Random, start_ms: int, end_ms: int, *, fails: bool) -> Iterator[PastPing]:
    run_id = uuid.UUID(int=rng.getrandbits(128), version=4)
    yield PastPing(start_ms, job, run_id, "start")
    if fails:
        yield PastPing(end_ms, job, run_id, "failure", job.exit_status, job.failure)
    else:
        yield PastPing(end_ms, job, run_id, "success", 0, job.output)
