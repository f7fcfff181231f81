"""The queues of the demo shop: past snapshots, live snapshots, and updates of workers."""

import asyncio
import logging
import math
import random
import time
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import aiohttp
import orjson

from demo.api_client import ApiClient, ApiRefused
from demo.ledger import Ledger
from demo.traffic.rhythm import Troubles, expected_rate
from pipeline_contracts import topics
from pipeline_contracts.monitors import MonitorMeta, encode_monitor_meta
from pipeline_contracts.times import format_time
from storage_backends.event_log.interface import EventLog

logger = logging.getLogger(__name__)

EMAILS, IMAGES, DEFAULT = "emails", "images", "default"
_WORKERS = {DEFAULT: 2, EMAILS: 2, IMAGES: 2}
# Number of waiting jobs at the mean rate of requests, and the oldest job's waiting seconds per waiting job.
_USUAL = {DEFAULT: (6.0, 1.1), EMAILS: (11.0, 2.4), IMAGES: (3.0, 7.0)}
_MEAN_RATE = 0.2
_PAST_STEP_SECONDS = 600
_PAST_SECONDS = 3 * 86_400
_CONCURRENT = 4
_UPDATE_SECONDS = 60
_POLL_SECONDS = 0.5
_NAMESPACE = uuid.UUID("6f6c1f6e-5d0e-4d7a-9c35-0c5b8d2f4a11")


async def add_queues(owner: ApiClient, ledger: Ledger, environment_id: str, first: Mapping[str, Any]) -> None:
    """Create the queues. `first` is the sample queue of the installation. The ledger stores the number and the key of
    each under its name."""
    if not ledger.has(f"queue {DEFAULT}"):
        ledger.note(f"queue {DEFAULT}", {"id": first["id"], "key": first["key"]})
    for name in (EMAILS, IMAGES):
        if not ledger.has(f"queue {name}"):
            created = await owner.post(f"/v1/environments/{environment_id}/queues", {"name": name})
            ledger.note(f"queue {name}", {"id": created["id"], "key": created["key"]["key"]})


def snapshot(name: str, at_s: int, troubles: Troubles) -> dict[str, Any]:
    """Return the snapshot of a queue at this time; always the same for the same time."""
    rng = random.Random(f"{name} {at_s}")
    mean, wait_each = _USUAL[name]
    pending = max(0, round(mean * expected_rate(at_s) / _MEAN_RATE * rng.lognormvariate(-0.1, 0.5)))
    wait = round(pending * wait_each * rng.uniform(0.6, 1.3))
    reserved = min(pending, rng.randint(0, _WORKERS[name]))
    stuck = troubles.seconds_of_stuck_images(at_s) if name == IMAGES else None
    if stuck is not None:
        pending, wait, reserved = pending + round(stuck / 40), round(stuck), 1
    return {
        "snapshot_id": str(uuid.uuid5(_NAMESPACE, f"{name} {at_s}")),
        "observed_at": format_time(datetime.fromtimestamp(at_s, UTC)),
        "pending": pending,
        "reserved": reserved,
        "delayed": rng.randint(0, 3),
        "failed": 4 + math.floor(at_s / 86_400) % 3 if name == EMAILS else 0,
        "oldest_wait_seconds": wait,
    }


async def post_past_snapshots(owner: ApiClient, ledger: Ledger, troubles: Troubles) -> None:
    """Post three days of snapshots. Repeating it changes nothing: a snapshot is stored once."""
    until_s = troubles.began_s // _PAST_STEP_SECONDS * _PAST_STEP_SECONDS
    pending = iter(
        [
            (name, at_s)
            for at_s in range(until_s - _PAST_SECONDS, until_s, _PAST_STEP_SECONDS)
            for name in _WORKERS
        ]
    )

    async def post_rest(rest: Iterator[tuple[str, int]]) -> None:
        for name, at_s in rest:
            queue = ledger.get(f"queue {name}")
            client = owner.with_token(queue["key"])
            await client.post(f"/v1/queues/{queue['id']}/snapshots", snapshot(name, at_s, troubles))

    async with asyncio.TaskGroup() as posts:
        for _ in range(_CONCURRENT):
            posts.create_task(post_rest(pending))


async def append_past_updates(
    owner: ApiClient, log: EventLog, ledger: Ledger, environment_id: str, troubles: Troubles
) -> None:
    """Append a day of past updates of workers to the log, because the edge would stamp them with the present time. Call
    it after the workers have reported, so that the past updates do not change the present state."""
    last = ledger.get(f"queue {IMAGES}")["id"]
    while True:
        if await owner.get(f"/v1/monitors/queues/{last}/workers?limit=1"):
            break
        await asyncio.sleep(_POLL_SECONDS)
    appends = []
    for name in _WORKERS:
        queue: int = ledger.get(f"queue {name}")["id"]
        rng = random.Random(f"workers of {name}")
        for at_s in range(troubles.began_s - 86_400, troubles.began_s, _UPDATE_SECONDS):
            meta = encode_monitor_meta(MonitorMeta("worker", queue, environment_id, at_s * 1000))
            for number in range(_WORKERS[name]):
                value = orjson.dumps(_make_update(name, number, at_s, rng))
                appends.append(log.append(topics.QUEUES, f"queue/{queue}".encode(), meta, value))
    await asyncio.gather(*appends)


def _make_update(name: str, number: int, at_s: int, rng: random.Random) -> dict[str, Any]:
    is_busy = rng.random() < 0.6
    update = {
        "worker_id": str(uuid.uuid5(_NAMESPACE, f"worker {name} {number}")),
        "sequence": at_s,
        "status": "busy" if is_busy else "idle",
    }
    if is_busy:
        update["job_id"] = str(uuid.UUID(int=rng.getrandbits(128), version=4))
    return update


async def report_queues(client: ApiClient, ledger: Ledger, troubles: Troubles) -> None:
    """Post snapshots and updates of workers every minute, until cancelled. While the queue of images is stuck, one of
    its workers sends no reports."""
    rng = random.Random()
    failing = False
    while True:
        try:
            for name in _WORKERS:
                await _report(client, ledger.get(f"queue {name}"), name, troubles, rng)
            failing = False
        except (ApiRefused, aiohttp.ClientError, TimeoutError, OSError) as error:
            if not failing:
                logger.warning("the demo's queues are not accepted (%s); retrying", type(error).__name__)
            failing = True
        await asyncio.sleep(_UPDATE_SECONDS)


async def _report(
    anonymous: ApiClient, queue: dict[str, Any], name: str, troubles: Troubles, rng: random.Random
) -> None:
    client, path, now = anonymous.with_token(queue["key"]), f"/v1/queues/{queue['id']}", int(time.time())
    await client.post(f"{path}/snapshots", snapshot(name, now, troubles))
    is_stuck = name == IMAGES and troubles.seconds_of_stuck_images(now) is not None
    for number in range(_WORKERS[name]):
        # It reported once before it got stuck.
        if is_stuck and number == 0 and now - troubles.began_s > 90:
            continue
        await client.post(f"{path}/workers", _make_update(name, number, now, rng))
