"""Request many concurrent reports from a running Pharos, during another tenant's ingest and reports; print the delays.

`python -m tests.hostile.attack_reports [--views N] [--at-once N] [--seconds N]` starts a `pharos up` of its own with
two accounts, each with a site.
"""

import argparse
import asyncio
import json
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp

from storage_backends.column_store.apply_schema import apply_schema
from storage_backends.column_store.chdb_embedded import open_chdb
from storage_backends.sql_files import read_sql
from tests.support.platform_process import PlatformProcess, platform_process

_FILL = read_sql(Path(__file__).parents[2] / "loadtests/bench/site_report.py")
_DAYS = 90
_STORED_SECONDS = 120


@dataclass(slots=True)
class Delays:
    """The results of an attack: responses by status, durations of requests in seconds."""

    attackers: Counter[int | str] = field(default_factory=Counter)
    batches: Counter[int | str] = field(default_factory=Counter)
    reports: Counter[int | str] = field(default_factory=Counter)
    accepted: list[float] = field(default_factory=list)
    """Seconds until the other tenant's batch was accepted."""
    stored: list[float] = field(default_factory=list)
    """Seconds from the acceptance until the receipt's status is `stored`."""
    answered: list[float] = field(default_factory=list)
    """Seconds until the response to the other tenant's report of 30 days."""


async def fill(folder: Path, views: int) -> None:
    """Store page views of site 1, over 90 days up to now."""
    store = await open_chdb(folder)
    await apply_schema(store)
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    a_day = views // _DAYS
    for number in range(_DAYS):
        day = midnight - timedelta(days=_DAYS - number)
        await store.command(
            _FILL, {"site": 1, "sites": 1, "first": number * 2 * a_day, "views": a_day, "day": day}
        )
    await store.close()


@dataclass(frozen=True, slots=True)
class Caller:
    """One tenant's HTTP access to a platform."""

    http: aiohttp.ClientSession
    url: str
    token: str
    site: int

    async def report(self, days: int) -> int | str:
        """Return the status of a report, or the error that ended the connection."""
        url = f"{self.url}/v1/analytics/sites/{self.site}/report?days={days}"
        return await _status(self.http.get(url, headers={"Authorization": f"Bearer {self.token}"}))


async def _status(request: Any) -> int | str:
    try:
        async with request as answer:
            await answer.read()
            return int(answer.status)
    except (aiohttp.ClientError, TimeoutError) as error:
        return type(error).__name__


async def attack(attacker: Caller, other: Caller, ingest_key: str, at_once: int, seconds: float) -> Delays:
    """Keep requesting the given number of concurrent reports of 365 days, while the other tenant sends batches and
    requests reports."""
    delays = Delays()
    ended = asyncio.Event()
    working = [asyncio.create_task(_ask_again(attacker, delays, ended)) for _ in range(at_once)]
    working.append(asyncio.create_task(_ask_as_other(other, delays, ended)))
    working.append(asyncio.create_task(_send_as_other(other, ingest_key, delays, ended)))
    await asyncio.sleep(seconds)
    ended.set()
    await asyncio.gather(*working)
    return delays


async def _ask_again(attacker: Caller, delays: Delays, ended: asyncio.Event) -> None:
    while not ended.is_set():
        answer = await attacker.report(365)
        delays.attackers[answer] += 1
        if answer != 200:
            await asyncio.sleep(0.05)


async def _ask_as_other(other: Caller, delays: Delays, ended: asyncio.Event) -> None:
    while not ended.is_set():
        begun = time.monotonic()
        delays.reports[await other.report(30)] += 1
        delays.answered.append(time.monotonic() - begun)
        await asyncio.sleep(0.5)


async def _send_as_other(other: Caller, key: str, delays: Delays, ended: asyncio.Event) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    while not ended.is_set():
        batch = {"batch_id": uuid.uuid4().hex, "events": [{"type": "log", "name": "of the other tenant"}]}
        begun = time.monotonic()
        async with other.http.post(f"{other.url}/v1/ingest", json=batch, headers=headers) as answer:
            delays.batches[answer.status] += 1
            receipt = (await answer.json())["data"]["id"]
        accepted = time.monotonic()
        delays.accepted.append(accepted - begun)
        while time.monotonic() < accepted + _STORED_SECONDS:
            async with other.http.get(f"{other.url}/v1/ingest/receipts/{receipt}", headers=headers) as answer:
                if answer.status == 200 and (await answer.json())["data"]["status"] != "queued":
                    break
            await asyncio.sleep(0.05)
        delays.stored.append(time.monotonic() - accepted)


def open_accounts(platform: PlatformProcess) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the credentials and sites of the first and of another account: `token`, `site`, `key`."""
    first = platform.credentials
    owner = ("--owner-name", "Nora", "--owner-email", "nora@neighbour.example")
    account = _run(platform, "account", "create", "Neighbour", *owner)
    token = _run(platform, "token", "create", "--local", "--account", account["slug"])["api_token"]
    project = _post(platform, token, "/v1/projects", {"name": "Shop"})
    site = _post(platform, token, f"/v1/projects/{project['id']}/sites", {"domains": ["https://n.example"]})
    return (
        {"token": first["api_token"], "site": first["site"]["id"]},
        {"token": token, "site": site["id"], "key": first["ingest_key"]},
    )


def _run(platform: PlatformProcess, *arguments: str) -> Any:
    done = platform.run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _post(platform: PlatformProcess, token: str, path: str, body: Mapping[str, Any]) -> Any:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    made = platform.request("POST", f"/api{path}", body=json.dumps(body).encode(), headers=headers)
    assert made.status == 201, made
    return made.json["data"]


async def run(platform: PlatformProcess, at_once: int, seconds: float) -> Delays:
    """Open the second account, warm the reports up, then attack."""
    first, second = await asyncio.to_thread(open_accounts, platform)
    url = f"http://127.0.0.1:{platform.port}/api"
    limits = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=limits, timeout=aiohttp.ClientTimeout(300)) as http:
        attacker = Caller(http, url, first["token"], first["site"])
        other = Caller(http, url, second["token"], second["site"])
        assert await attacker.report(365) == 200
        return await attack(attacker, other, second["key"], at_once, seconds)


def _report(delays: Delays) -> dict[str, Any]:
    return {
        "reports of the attacker": dict(delays.attackers),
        "batches of the other tenant": dict(delays.batches),
        "reports of the other tenant": dict(delays.reports),
        **{
            name: {"p50": round(sorted(found)[len(found) // 2], 3), "longest": round(max(found), 3)}
            for name, found in (
                ("until accepted, s", delays.accepted),
                ("from accepted to stored, s", delays.stored),
                ("until the other tenant's report, s", delays.answered),
            )
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--views", type=int, default=2_000_000)
    parser.add_argument("--at-once", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--fill", type=Path, help="only store page views, in this folder of a column store")
    given = parser.parse_args()
    if given.fill is not None:
        asyncio.run(fill(given.fill, given.views))
        return
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "data"
        folder.mkdir()
        asyncio.run(fill(folder / "clickhouse", given.views))
        with platform_process(folder) as platform:
            print(json.dumps(_report(asyncio.run(run(platform, given.at_once, given.seconds))), indent=2))
            platform.stop()


if __name__ == "__main__":
    main()
