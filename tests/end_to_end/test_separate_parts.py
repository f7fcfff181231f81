"""Every part as a process of its own on real engines, behind the gateway, as docker-compose.yml has them."""

import asyncio
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from loadtests.check_stored import judge
from loadtests.faults.tour import SETTINGS, run_tour
from loadtests.stack.parts import PHAROS, Part
from loadtests.stack.stack import Stack, running_stack
from tests.support.compose_file import own_services
from tests.support.engines import or_skip

_RATE = 5000


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Two edges, one consumer, control and the gateway."""
    folder = tmp_path_factory.mktemp("stack")
    limit = {"PHAROS_INGEST_RATE": str(_RATE), "PHAROS_INGEST_BURST": "2500"}
    with or_skip(running_stack(folder, consumers=1, settings=limit)) as running:
        yield running


def ask(url: str, key: str | None = None, body: object = None) -> tuple[int, Any]:
    """One request: its status and its JSON."""
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read() or b"null")


def ingest(url: str, key: str, batch: str, events: int = 1) -> tuple[int, Any]:
    body = {"batch_id": batch, "events": [{"type": "log", "id": f"{batch}-{n}"} for n in range(events)]}
    return ask(f"{url}/v1/ingest", key, body)


def pharos(stack: Stack, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(PHAROS), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={"PATH": os.environ["PATH"], **stack.env},
    )


def test_a_batch_goes_all_the_way_and_back(stack: Stack) -> None:
    base_url, key = stack.credentials["base_url"], stack.credentials["ingest_key"]
    status, answer = ingest(base_url, key, "all the way", 3)
    assert status == 202
    receipt = f"{base_url}/v1/ingest/receipts/{answer['data']['id']}"
    # At once: no 404 between the 202 and the row.
    assert ask(receipt, key)[0] == 200
    assert ingest(base_url, key, "all the way", 3)[1] == answer
    deadline = time.monotonic() + 60
    while (read := ask(receipt, key)[1]["data"])["duplicates"] != 3:
        assert time.monotonic() < deadline, read
        time.sleep(0.1)
    assert (read["status"], read["stored"], read["duplicates"]) == ("stored", 3, 3)
    assert ask(f"{base_url}/v1/account", stack.credentials["api_token"])[0] == 200


def collect(url: str, site: dict[str, Any], *events: dict[str, Any]) -> tuple[int, Any]:
    """Events of a page's browser."""
    headers = {
        "Content-Type": "text/plain",
        "Origin": site["origin"],
        "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0.0.0 Safari/537.36",
    }
    body = json.dumps({"events": list(events)}).encode()
    path = f"{url}/v1/collect/{site['tracker_id']}"
    request = urllib.request.Request(path, data=body, headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.headers["Access-Control-Allow-Origin"] == site["origin"]
        return answer.status, json.loads(answer.read())


def test_page_views_go_all_the_way_to_the_report(stack: Stack) -> None:
    base_url, site = stack.credentials["base_url"], stack.credentials["site"]
    views = [{"id": str(uuid.uuid4()), "type": "pageview", "path": path} for path in ("/", "/products")]
    bought = {"name": "purchase", "revenue": 12.5, "currency": "EUR"}
    purchase = {"id": str(uuid.uuid4()), "type": "event", "path": "/thanks", "properties": bought}
    goal = ("site", "goal", str(site["id"]), "--event", "purchase", "--name", "Purchase")
    assert pharos(stack, *goal).returncode == 0
    # Twice, one after the other at different edges: counted once.
    for _ in range(3):
        for event in (*views, purchase):
            assert collect(base_url, site, event) == (202, {"data": {"accepted": 1, "dropped": 0}})
    url = f"{base_url}/v1/analytics/sites/{site['id']}/report?days=7"
    deadline = time.monotonic() + 60
    while True:
        status, answer = ask(url, stack.credentials["api_token"])
        assert status == 200, answer
        report = answer["data"]
        if report["goals"][0]["conversions"]:
            break
        assert time.monotonic() < deadline, report
        time.sleep(0.2)
    time.sleep(1.5)
    report = ask(url, stack.credentials["api_token"])[1]["data"]
    assert [report["metrics"][name]["value"] for name in ("pageviews", "visits")] == [2, 1]
    assert [entry["name"] for entry in report["exit_pages"]] == ["/products"]
    assert report["goals"][0]["revenue"] == [{"currency": "EUR", "amount": 12.5}]
    sites = ask(f"{base_url}/v1/analytics/sites", stack.credentials["api_token"])[1]["data"]
    assert sites[0]["verified"] is True
    with urllib.request.urlopen(base_url.removesuffix("/api") + "/tracker/v1.js", timeout=10) as script:
        assert script.status == 200 and b"pharos" in script.read()


def test_every_health_path_of_the_compose_file_answers(stack: Stack) -> None:
    parts = {part.name.partition("-")[0]: part for part in stack.parts()}
    for name, service in own_services().items():
        if "healthcheck" not in service:
            continue
        path = (
            service["healthcheck"]["test"][-1].split("'")[1].partition(":")[2].partition("/")[2].lstrip("/")
        )
        path = path[path.index("health") :]
        assert path == "health/ready"
        for answering in ("health/ready", "health/live"):
            assert ask(f"{parts[name].url}/{answering}")[0] == 200, (name, answering)
        with urllib.request.urlopen(f"{parts[name].url}/metrics", timeout=10) as answer:
            assert b"pharos_" in answer.read()


def test_migrating_again_changes_nothing(stack: Stack) -> None:
    done = pharos(stack, "migrate", "--json")
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["engine"] for line in told] == ["Kafka", "ClickHouse", "database"]
    assert [line["done"] for line in told[:2]] == ["nothing to do"] * 2


def test_a_part_names_what_it_lacks(stack: Stack) -> None:
    for command, missing in (
        ("edge", "PHAROS_REDIS_URL"),
        ("consumers", "PHAROS_CLICKHOUSE_URL"),
        ("control", "PHAROS_DATABASE_URL"),
        ("migrate", "PHAROS_KAFKA_BOOTSTRAP"),
    ):
        done = subprocess.run(
            [str(PHAROS), command, *(["--port", "0"] if command != "migrate" else [])],
            capture_output=True,
            text=True,
            timeout=60,
            env={"PATH": os.environ["PATH"]},
        )
        assert done.returncode == 2, (command, done.stderr)
        assert missing in done.stderr and "Traceback" not in done.stderr


def test_a_new_key_works_at_once_and_a_revoked_one_nowhere_within_5_s(stack: Stack) -> None:
    made = pharos(stack, "keys", "create", "--json")
    assert made.returncode == 0, made.stderr
    key = json.loads(made.stdout)
    for edge in stack.edges:
        assert ingest(f"{edge.url}/api", key["ingest_key"], f"new key at {edge.name}")[0] == 202
    assert pharos(stack, "keys", "revoke", str(key["id"])).returncode == 0
    revoked = time.monotonic()
    for edge in stack.edges:
        while ingest(f"{edge.url}/api", key["ingest_key"], "revoked")[0] != 401:
            assert time.monotonic() < revoked + 5.0, edge.name
            time.sleep(0.02)
        print(f"refused by {edge.name} {time.monotonic() - revoked:.2f} s after the command")
    shown = {k["id"]: k for k in json.loads(pharos(stack, "keys", "list", "--json").stdout)}
    assert shown[key["id"]]["revoked_at"] is not None
    unknown = pharos(stack, "keys", "revoke", "987654")
    assert unknown.returncode == 1 and "987654" in unknown.stderr


def test_several_workers_share_a_port_and_are_started_again(stack: Stack) -> None:
    part = stack.pharos("edge-workers", "edge")
    part.env = {**stack.env, "PHAROS_EDGE_WORKERS": "2"}
    part.start()
    try:
        children = _workers(part.pid, 2)
        _wait_until_all_are_ready(part)
        key = stack.credentials["ingest_key"]
        for n in range(20):
            _ingest_as_a_sender(part, key, f"workers {n}")
        children[0].kill()
        again = _workers(part.pid, 2, without=children[0])
        assert children[1] in again
        _wait_until_all_are_ready(part)
        assert part.stop() == 0
        assert not any(child.is_running() for child in again)
    finally:
        part.kill()


def _ingest_as_a_sender(part: Part, key: str, batch: str) -> None:
    """With a second try after a 503: a worker that has just started asks Redis for the key in a fraction of a second,
    and on a busy machine that is not always enough."""
    deadline = time.monotonic() + 20
    while (status := ingest(f"{part.url}/api", key, batch)[0]) != 202:
        assert status == 503
        assert time.monotonic() < deadline
        time.sleep(0.5)


def _wait_until_all_are_ready(part: Part) -> None:
    """Each question may meet another worker: so many good answers in a row come from all of them."""
    deadline = time.monotonic() + 60
    while not all(part.is_ready() for _ in range(40)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _workers(pid: int, count: int, without: psutil.Process | None = None) -> list[psutil.Process]:
    """The workers, once there are as many."""
    deadline = time.monotonic() + 30
    while True:
        found = [p for p in psutil.Process(pid).children() if p != without and p.status() != "zombie"]
        if len(found) == count:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def test_workers_with_bad_settings_end_with_the_reason(stack: Stack) -> None:
    env = {"PATH": os.environ["PATH"], "PHAROS_EDGE_WORKERS": "2"}
    done = subprocess.run(
        [str(PHAROS), "edge", "--port", "0"], capture_output=True, text=True, timeout=60, env=env
    )
    assert done.returncode == 2
    assert "PHAROS_REDIS_URL" in done.stderr


async def flood(stack: Stack, seconds: float, batch: str, events: int = 50) -> int:
    """Send to both edges at once as fast as they let it in; gives the events that got a 202."""
    passed = 0
    until = time.monotonic() + seconds
    headers = {"Authorization": f"Bearer {stack.credentials['ingest_key']}"}

    async def send(session: aiohttp.ClientSession, url: str, sender: str) -> None:
        nonlocal passed
        number = 0
        while time.monotonic() < until:
            number += 1
            body = {"batch_id": f"{batch} {sender} {number}", "events": [{"type": "log"}] * events}
            async with session.post(f"{url}/api/v1/ingest", json=body) as answer:
                if answer.status == 202:
                    passed += events
                else:
                    assert answer.status == 429, await answer.text()
                    assert int(answer.headers["Retry-After"]) >= 1
                    await asyncio.sleep(0.03)

    async with aiohttp.ClientSession(headers=headers) as session:
        await asyncio.gather(
            *(send(session, edge.url, f"{edge.name}/{n}") for edge in stack.edges for n in range(6))
        )
    return passed


async def test_two_edges_let_through_what_the_account_may_send_and_go_on_without_redis(stack: Stack) -> None:
    seconds = float(os.environ.get("PHAROS_TEST_LIMIT_SECONDS", "8"))
    # What the burst allows is spent first.
    await flood(stack, 1.5, "burst")
    begun = time.monotonic()
    passed = await flood(stack, seconds, "limited")
    rate = passed / (time.monotonic() - begun)
    print(f"two edges together: {rate:.0f} events/s of {_RATE} over {seconds:.0f} s")
    assert 0.9 * _RATE <= rate <= 1.1 * _RATE
    stack.redis.stop()
    begun = time.monotonic()
    passed = await flood(stack, seconds, "without redis")
    rate = passed / (time.monotonic() - begun)
    print(f"without Redis: {rate:.0f} events/s of {_RATE}")
    # The key is known to both, and each lets its half through, with a burst of its own.
    assert 0.7 * _RATE <= rate <= 1.3 * _RATE
    stack.redis.start()


@pytest.mark.timeout(400)
async def test_nothing_is_lost_or_doubled_while_everything_is_killed_in_turn(tmp_path: Path) -> None:
    with or_skip(running_stack(tmp_path, settings=SETTINGS)) as running:
        result = await run_tour(running, events=100_000, per_second=1200, longest=6, tell=print)
    assert result.verdict.holds, result.verdict.text()
    assert result.verdict.events == 100_000
    assert len(result.phases) == 12
    for phase in result.phases:
        assert phase.longest_pause < 40, phase.name
    assert judge({"a": 1}, {}).missing == ["a"]
