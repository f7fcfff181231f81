"""Every service as a separate process on real engines, behind the gateway, as in docker-compose.yml."""

import asyncio
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from ingest_edge.admission import _REQUESTS_AHEAD
from loadtests.check_stored import judge
from loadtests.faults.explain import explain
from loadtests.faults.tour import SETTINGS, run_tour
from loadtests.stack import parts
from loadtests.stack.parts import PHAROS, Part
from loadtests.stack.stack import Stack, running_stack
from pipeline_contracts import topics
from tests.support import fork_server
from tests.support.compose_file import own_services
from tests.support.engines import or_skip
from tests.support.scrape import check_scrape
from tests.support.waits import wait_within

_RATE = 5000
_BURST = 2500
# Events in each request of a flood.
_BATCH = 50
# The tokens that an edge leases from the account for its next requests.
_SLICE = _REQUESTS_AHEAD * _BATCH
# The first test includes the start of all services.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Two edges, one consumer, control and the gateway. Only `migrate` is not a fork."""
    folder = tmp_path_factory.mktemp("stack")
    limit = {"PHAROS_INGEST_RATE": str(_RATE), "PHAROS_INGEST_BURST": str(_BURST)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "_popen", fork_server.popen)
        with or_skip(running_stack(folder, consumers=1, settings=limit)) as running:
            yield running


def send_request(url: str, key: str | None = None, body: object = None) -> tuple[int, Any]:
    """Send a request and return its status and JSON.

    Retries a 503, as senders do: an edge waits for Redis only a fraction of a second, too short on a busy machine.
    """
    deadline = time.monotonic() + 60
    while (answer := _send_once(url, key, body))[0] == 503 and time.monotonic() < deadline:
        time.sleep(0.5)
    return answer


def _send_once(url: str, key: str | None, body: object) -> tuple[int, Any]:
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read() or b"null")


def ingest(url: str, key: str, batch: str, events: int = 1) -> tuple[int, Any]:
    body = {"batch_id": batch, "events": [{"type": "log", "id": f"{batch}-{n}"} for n in range(events)]}
    return send_request(f"{url}/v1/ingest", key, body)


def pharos(stack: Stack, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a command with the engines' settings, and with the URL and token of the API."""
    api = {
        "PHAROS_URL": stack.credentials["base_url"],
        "PHAROS_TOKEN": stack.credentials["api_token"],
    }
    return fork_server.run(
        [str(PHAROS), *arguments],
        capture_output=True,
        text=True,
        timeout=180,
        env={"PATH": os.environ["PATH"], **stack.env, **api},
    )


def test_a_batch_is_stored_and_its_receipt_is_served(stack: Stack) -> None:
    base_url, key = stack.credentials["base_url"], stack.credentials["ingest_key"]
    status, answer = ingest(base_url, key, "all the way", 3)
    assert status == 202
    receipt = f"{base_url}/v1/ingest/receipts/{answer['data']['id']}"
    # The receipt is served immediately: there is no 404 between the 202 and the row.
    assert send_request(receipt, key)[0] == 200
    assert ingest(base_url, key, "all the way", 3)[1] == answer
    deadline = time.monotonic() + 120
    while (read := send_request(receipt, key)[1]["data"])["duplicates"] != 3:
        assert time.monotonic() < deadline, read
        time.sleep(0.1)
    assert (read["status"], read["stored"], read["duplicates"]) == ("stored", 3, 3)
    assert send_request(f"{base_url}/v1/account", stack.credentials["api_token"])[0] == 200


def collect(url: str, site: dict[str, Any], *events: dict[str, Any]) -> tuple[int, Any]:
    """Send events like the browser of a page."""
    headers = {
        "Content-Type": "text/plain",
        "Origin": site["origin"],
        "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0.0.0 Safari/537.36",
    }
    body = json.dumps({"events": list(events)}).encode()
    path = f"{url}/v1/collect/{site['tracker_id']}"
    request = urllib.request.Request(path, data=body, headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.headers["Access-Control-Allow-Origin"] == site["origin"]
        return answer.status, json.loads(answer.read())


def test_page_views_appear_in_the_report(stack: Stack) -> None:
    base_url, site = stack.credentials["base_url"], stack.credentials["site"]
    views = [{"id": str(uuid.uuid4()), "type": "pageview", "path": path} for path in ("/", "/products")]
    bought = {"name": "purchase", "revenue": 12.5, "currency": "EUR"}
    purchase = {"id": str(uuid.uuid4()), "type": "event", "path": "/thanks", "properties": bought}
    for name in ("purchase", "last"):
        goal = ("site", "goal", str(site["id"]), "--event", name, "--name", name.title())
        assert pharos(stack, *goal).returncode == 0
    # Sent twice, to different edges, and counted once.
    for _ in range(3):
        for event in (*views, purchase):
            assert collect(base_url, site, event) == (202, {"data": {"accepted": 1, "dropped": 0}})
    # Events of a site are processed in order: once this one is, all earlier ones are.
    last: dict[str, Any] = {**purchase, "id": str(uuid.uuid4()), "properties": {"name": "last"}}
    assert collect(base_url, site, last) == (202, {"data": {"accepted": 1, "dropped": 0}})
    url = f"{base_url}/v1/analytics/sites/{site['id']}/report?days=7"
    deadline = time.monotonic() + 120
    while True:
        status, answer = send_request(url, stack.credentials["api_token"])
        assert status == 200, answer
        report = answer["data"]
        goals = {goal["name"]: goal for goal in report["goals"]}
        if goals["Last"]["conversions"]:
            break
        assert time.monotonic() < deadline, report
        time.sleep(0.2)
    assert [report["metrics"][name]["value"] for name in ("pageviews", "visits")] == [2, 1]
    assert [entry["name"] for entry in report["exit_pages"]] == ["/products"]
    assert goals["Purchase"]["conversions"] == 1
    assert goals["Purchase"]["revenue"] == [{"currency": "EUR", "amount": 12.5}]
    sites = send_request(f"{base_url}/v1/analytics/sites", stack.credentials["api_token"])[1]["data"]
    assert sites[0]["verified"] is True
    with urllib.request.urlopen(base_url.removesuffix("/api") + "/tracker/v1.js", timeout=60) as script:
        assert script.status == 200 and b"pharos" in script.read()


async def test_the_status_of_the_stack_is_explained(stack: Stack) -> None:
    """The explanation of a missing batch lists each group with its members and each service with its response."""
    output = await explain(stack)
    for part in stack.parts():
        assert f"  {part.name}: 200 " in output
    assert f"group pharos-consumers.{topics.TELEMETRY}: Stable (error 0), 1 members" in output
    assert "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]" in output


def test_every_health_path_of_the_compose_file_answers(stack: Stack) -> None:
    running = {part.name.partition("-")[0]: part for part in stack.parts()}
    for name, service in own_services().items():
        if "healthcheck" not in service:
            continue
        path = (
            service["healthcheck"]["test"][-1].split("'")[1].partition(":")[2].partition("/")[2].lstrip("/")
        )
        path = path[path.index("health") :]
        assert path == "health/ready"
        for answering in ("health/ready", "health/live"):
            assert send_request(f"{running[name].url}/{answering}")[0] == 200, (name, answering)
        assert send_request(f"{running[name].url}/metrics")[0] == 404
        with urllib.request.urlopen(f"{running[name].metrics_url}/metrics", timeout=60) as answer:
            assert sum(check_scrape(answer.read().decode()).values()) > 0, name


def test_control_ignores_forwarded_addresses_from_local_callers(stack: Stack) -> None:
    control = stack.pharos("trusting-nobody", "control")
    control.env = {**stack.env, "PHAROS_TRUSTED_PROXIES": ""}
    control.start()
    try:
        wait_within(60, control.is_ready)
        request = urllib.request.Request(
            f"{control.url}/api/v1/projects/{stack.credentials['project_id']}/workflow",
            data=json.dumps({"workflow": "version: 1\nprocesses: {web: {command: ./serve}}"}).encode(),
            headers={
                "Authorization": f"Bearer {stack.credentials['api_token']}",
                "Content-Type": "application/json",
                "X-Forwarded-For": "203.0.113.9",
            },
            method="PUT",
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 200
    finally:
        control.kill()
    (entry,) = json.loads(pharos(stack, "audit", "--limit", "1", "--json").stdout)
    assert (entry["action"], entry["source"]) == ("workflow.set", "127.0.0.1")


def test_migrating_again_changes_nothing(stack: Stack) -> None:
    done = pharos(stack, "migrate", "--json")
    assert done.returncode == 0, done.stderr
    output = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["engine"] for line in output] == ["Kafka", "ClickHouse", "database"]
    assert [line["done"] for line in output[:2]] == ["nothing to do"] * 2


def test_a_service_names_its_missing_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    # In a fork all modules are imported already, which would hide missing imports of a service.
    monkeypatch.setenv("PHAROS_TEST_NO_FORK", "1")
    for command, missing in (
        ("edge --port 0", "PHAROS_REDIS_URL"),
        ("consumers --port 0", "PHAROS_CLICKHOUSE_URL"),
        ("control --port 0", "PHAROS_DATABASE_URL"),
        ("deployer --port 0 --apps-port 0", "PHAROS_DEPLOY_FOLDER"),
        ("migrate", "PHAROS_KAFKA_BOOTSTRAP"),
    ):
        done = fork_server.run(
            [str(PHAROS), *command.split()],
            capture_output=True,
            text=True,
            timeout=180,
            env={"PATH": os.environ["PATH"]},
        )
        assert done.returncode == 2, (command, done.stderr)
        assert missing in done.stderr and "Traceback" not in done.stderr


def test_a_new_key_works_at_once_and_a_revoked_one_nowhere_within_5_s(stack: Stack) -> None:
    created = pharos(stack, "key", "create", "--json")
    assert created.returncode == 0, created.stderr
    key = json.loads(created.stdout)
    for edge in stack.edges:
        assert ingest(f"{edge.url}/api", key["key"], f"new key at {edge.name}")[0] == 202
    assert pharos(stack, "key", "revoke", str(key["id"]), "--yes").returncode == 0
    left = 5.0

    def is_refused(edge: Part) -> bool:
        return ingest(f"{edge.url}/api", key["key"], "revoked")[0] == 401

    for edge in stack.edges:
        left -= wait_within(left, partial(is_refused, edge))
        print(f"refused by {edge.name} {5.0 - left:.2f} s after the command")
    shown = {k["id"]: k for k in json.loads(pharos(stack, "key", "list", "--json").stdout)}
    assert shown[key["id"]]["revoked_at"] is not None
    unknown = pharos(stack, "key", "revoke", "987654", "--yes")
    assert unknown.returncode == 5 and unknown.stderr.startswith("pharos: ")


def test_several_workers_share_a_port_and_are_restarted(stack: Stack) -> None:
    part = stack.pharos("edge-workers", "edge")
    part.env = {**stack.env, "PHAROS_EDGE_WORKERS": "2"}
    part.start()
    try:
        children = _workers(part.pid, 2)
        _wait_until_all_are_ready(part)
        key = stack.credentials["ingest_key"]
        for n in range(20):
            assert ingest(f"{part.url}/api", key, f"workers {n}")[0] == 202
        children[0].kill()
        again = _workers(part.pid, 2, without=children[0])
        assert children[1] in again
        _wait_until_all_are_ready(part)
        assert part.stop() == 0
        assert not any(child.is_running() for child in again)
    finally:
        part.kill()


def _wait_until_all_are_ready(part: Part) -> None:
    """Requests reach different workers, so this number of good responses in a row comes from all of them."""
    deadline = time.monotonic() + 120
    while not all(part.is_ready() for _ in range(40)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _workers(pid: int, count: int, without: psutil.Process | None = None) -> list[psutil.Process]:
    """Return the workers once there are `count` of them."""
    deadline = time.monotonic() + 120
    while True:
        found = [p for p in psutil.Process(pid).children() if p != without and _runs(p)]
        if len(found) == count:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def _runs(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def test_workers_with_bad_settings_exit_with_the_reason(stack: Stack) -> None:
    env = {"PATH": os.environ["PATH"], "PHAROS_EDGE_WORKERS": "2"}
    done = fork_server.run(
        [str(PHAROS), "edge", "--port", "0"], capture_output=True, text=True, timeout=180, env=env
    )
    assert done.returncode == 2
    assert "PHAROS_REDIS_URL" in done.stderr


@dataclass(slots=True)
class Flood:
    """The result of sending at full speed: events with a 202, and the times of refusals by edge."""

    begun: float = 0.0
    seconds: float = 0.0
    limit_reached: float = 0.0
    """When the last refused request was sent: at its refusal the account had no tokens for a batch."""
    passed: Counter[str] = field(default_factory=Counter)
    refused: dict[str, list[float]] = field(default_factory=dict)

    def pressed(self, *edges: str) -> float:
        """Return the seconds in which these edges had no tokens: the sum of short intervals between refusals. In longer
        intervals the senders may not have run, on a busy machine."""
        moments = sorted(moment for edge in edges for moment in self.refused.get(edge, []))
        return sum(min(later - earlier, 0.1) for earlier, later in pairwise(moments))


async def flood(stack: Stack, seconds: float, batch: str, events: int = _BATCH) -> Flood:
    """Send to both edges at full speed until each has refused for `seconds`."""
    flood = Flood(begun=time.monotonic())
    latest = flood.begun + 90
    is_over = False
    headers = {"Authorization": f"Bearer {stack.credentials['ingest_key']}"}

    async def send(session: aiohttp.ClientSession, url: str, sender: str) -> None:
        edge, number = sender.partition("/")[0], 0
        while not is_over:
            number += 1
            body = {"batch_id": f"{batch} {sender} {number}", "events": [{"type": "log"}] * events}
            sent = time.monotonic()
            async with session.post(f"{url}/api/v1/ingest", json=body) as answer:
                if answer.status == 202:
                    flood.passed[edge] += events
                else:
                    assert answer.status == 429, await answer.text()
                    assert int(answer.headers["Retry-After"]) >= 1
                    flood.refused.setdefault(edge, []).append(time.monotonic())
                    flood.limit_reached = max(flood.limit_reached, sent)
                    await asyncio.sleep(0.03)

    async with aiohttp.ClientSession(headers=headers) as session:
        sending = asyncio.gather(
            *(send(session, edge.url, f"{edge.name}/{n}") for edge in stack.edges for n in range(6))
        )
        while not sending.done() and any(flood.pressed(edge.name) < seconds for edge in stack.edges):
            assert time.monotonic() < latest, {edge.name: flood.pressed(edge.name) for edge in stack.edges}
            await asyncio.sleep(0.1)
        is_over = True
        await sending
    flood.seconds = time.monotonic() - flood.begun
    return flood


def _leased_alone(stack: Stack) -> float:
    """Return the number of times that the edges continued without Redis because it was slow."""
    return sum(_metric(edge, "pharos_edge_rate_fallbacks") for edge in stack.edges)


def _metric(part: Part, name: str) -> float:
    with urllib.request.urlopen(f"{part.metrics_url}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    values = [line.rsplit(" ", 1)[1] for line in lines if line.startswith((f"{name}_total", f"{name} "))]
    assert values, f"no metric {name}"
    return sum(map(float, values))


@pytest.mark.parametrize("seconds", [1.5, pytest.param(8.0, marks=pytest.mark.full)])
async def test_two_edges_share_the_account_limit_and_continue_without_redis(
    stack: Stack, seconds: float
) -> None:
    names = [edge.name for edge in stack.edges]
    for edge in stack.edges:
        assert (
            ingest(f"{edge.url}/api", stack.credentials["ingest_key"], f"first at {edge.name} {seconds}")[0]
            == 202
        )
    alone = _leased_alone(stack)
    # The first flood spends the burst.
    spent = await flood(stack, 0.5, f"burst {seconds}")
    limited = await flood(stack, seconds, f"limited {seconds}")
    alone = _leased_alone(stack) - alone
    passed, pressed = limited.passed.total(), limited.pressed(*names)
    rate = passed / limited.seconds
    print(
        f"two edges together: {rate:.0f} events/s of {_RATE} over {limited.seconds:.0f} s, pressed {pressed:.1f} s"
    )
    # At the last refusal the account has less than a batch, and each edge at most a slice. Then the burst refills.
    between = limited.begun - spent.limit_reached
    left = min(_BURST, _BATCH + len(names) * _SLICE + _RATE * between)
    if alone:
        # Redis was slow: an edge that refused without it did not know the remaining tokens of the account.
        left = _BURST + alone * _SLICE
    print(
        f"{passed - _RATE * limited.seconds:.0f} events above the rate; the account had at most {left:.0f} left"
    )
    assert passed <= 1.02 * _RATE * limited.seconds + left
    assert passed >= 0.9 * _RATE * pressed
    stack.redis.stop()
    apart = await flood(stack, seconds, f"without redis {seconds}")
    rate = apart.passed.total() / apart.seconds
    print(f"without Redis: {rate:.0f} events/s of {_RATE}")
    # Both edges know the key, and each allows its half of the rate, with its own burst.
    assert apart.passed.total() <= 1.1 * _RATE * apart.seconds + 2 * _BURST
    stack.redis.start()
    for name in names:
        # On a busy machine an edge that stalls for 0.1 s loses the tokens above the size of its bucket.
        assert apart.passed[name] >= 0.3 * _RATE / 2 * apart.pressed(name), name


async def test_events_are_stored_once_when_an_edge_a_consumer_and_clickhouse_fail(stack: Stack) -> None:
    """A short form of the next test: one fault of each kind of service, on the stack of this file."""
    only = (
        "a consumer is killed, another joins",
        "ClickHouse cuts inserts after it has them",
        "an edge is killed",
    )
    result = await run_tour(
        stack, events=6_000, per_second=600, longest=1.5, report_progress=print, only=only
    )
    assert result.verdict.holds, f"{result.verdict.text()}\n{result.explanation}"
    assert result.verdict.events == 6_000
    assert [phase.name for phase in result.phases] == ["warming up", *only, "none"]


@pytest.mark.full
@pytest.mark.timeout(1200)
async def test_events_are_stored_once_while_each_service_is_killed_in_turn(tmp_path: Path) -> None:
    with or_skip(running_stack(tmp_path, settings=SETTINGS)) as running:
        result = await run_tour(running, events=100_000, per_second=1200, longest=6, report_progress=print)
    assert result.verdict.holds, f"{result.verdict.text()}\n{result.explanation}"
    assert result.verdict.events == 100_000
    assert len(result.phases) == 12
    for phase in result.phases:
        # The time that an engine may need to start.
        assert phase.longest_pause < 120, phase.name
    assert judge({"a": 1}, {}).missing == ["a"]
