"""The processes of an environment and their output, as JSON and as an event stream."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from control_api.live_logs import log_streams, stream_output
from deployer.drivers.local.process_output import LocalProcessOutput
from tests.control_api.management.conftest import Api
from tests.support import deployment_rows
from tests.support.deploy_platform import add_deployment

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
_PATIENCE = 60.0


def _path(api: Api, rest: str = "") -> str:
    return f"/v1/environments/{api.platform.acme.environment('shop/production').public_id}/processes{rest}"


async def _run(api: Api, *names: str, holder: str = deployment_rows.HOLDER, **values: Any) -> int:
    """Let processes (`web.1`) of a new live deployment of `shop/production` run; return its ID."""
    environment = api.platform.acme.environment("shop/production")
    rows = [
        {"process": name.partition(".")[0], "number": int(name.partition(".")[2]), **values} for name in names
    ]
    async with api.platform.sessions() as session, session.begin():
        deployment = await add_deployment(session, api.platform.acme, "shop/production", NOW, status="queued")
        await deployment_rows.lease_environment(session, environment.id, NOW, holder_name=holder)
        await deployment_rows.begin_deployment(session, deployment.id, NOW)
        await deployment_rows.complete_deployment(session, deployment.id, NOW)
        await deployment_rows.replace_instances(session, deployment.id, NOW, rows)
    return deployment.id


class Outputs:
    """The folder of the deployer on the machine of the control plane."""

    def __init__(self, api: Api, folder: Path) -> None:
        self._api = api
        self.folder = folder
        api.platform.app.state.process_output = LocalProcessOutput(folder)
        self.holder = f"web1:{folder.resolve()}"

    def write(self, deployment_id: int, name: str, text: str) -> None:
        environment = self._api.platform.acme.environment("shop/production").public_id
        folder = self.folder / "outputs" / environment / str(deployment_id)
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / f"{name}.log", "a", encoding="utf-8") as file:
            file.write(text)


@pytest.fixture
def outputs(api: Api, tmp_path: Path) -> Outputs:
    return Outputs(api, tmp_path / "deployer")


async def test_processes(api: Api) -> None:
    environment = api.platform.acme.environment("shop/production")
    idle = await api.read(_path(api), by="viewer")
    assert idle == {
        "environment": {"id": environment.public_id, "name": "Production", "slug": "production"},
        "state": "running",
        "address": None,
        "live": None,
        "active_deployment": None,
        "deployer": None,
        "desired": 0,
        "running": 0,
        "instances": [],
    }
    live = await _run(api, "worker.1", state="waiting", restarts=3, last_exit="exit status 1")
    async with api.platform.sessions() as session, session.begin():
        queued = await add_deployment(session, api.platform.acme, "shop/production", NOW, status="queued")
    shown = await api.read(_path(api))
    [worker] = shown["instances"]
    assert (worker["process"], worker["state"], worker["restarts"]) == ("worker", "waiting", 3)
    assert (worker["last_exit"], worker["started_at"]) == ("exit status 1", "2026-11-20T12:00:00.000Z")
    assert (shown["live"]["deployment_id"], shown["live"]["held"]) == (live, False)
    assert shown["active_deployment"] == {"id": queued.id, "status": "queued", "step": None}
    # The response contains nothing about the deployer's folder.
    assert (shown["deployer"]["host"], shown["deployer"]["responds"]) == ("web1", True)
    # One `web` process by the settings of the environment, and two workers by the workflow.
    assert (shown["desired"], shown["running"], shown["address"]) == (3, 0, deployment_rows.ADDRESS)
    await api.platform.change("shop/production", desired_replicas=3)
    assert (await api.read(_path(api)))["desired"] == 5
    await api.platform.change("shop/production", state="hibernated")
    assert (await api.read(_path(api)))["desired"] == 0


async def test_processes_with_ports_come_first(api: Api) -> None:
    number = await _run(api)
    rows = [{"process": "a", "number": 1}, {"process": "web", "number": 1, "port": 40001}]
    async with api.platform.sessions() as session, session.begin():
        await deployment_rows.replace_instances(session, number, NOW, rows)
    shown = await api.read(_path(api))
    assert [each["process"] for each in shown["instances"]] == ["web", "a"]
    assert shown["running"] == 2


async def test_rollback_deployment_in_progress_and_silent_deployer(api: Api) -> None:
    environment = api.platform.acme.environment("shop/production")
    first = await _run(api)
    await _run(api)
    async with api.platform.sessions() as session, session.begin():
        back = await add_deployment(
            session,
            api.platform.acme,
            "shop/production",
            NOW,
            status="queued",
            trigger="rollback",
            rolled_back_to_id=first,
        )
        await deployment_rows.begin_deployment(session, back.id, NOW)
        await deployment_rows.complete_deployment(session, back.id, NOW)
    async with api.platform.sessions() as session, session.begin():
        active = await add_deployment(session, api.platform.acme, "shop/production", NOW, status="queued")
        await deployment_rows.begin_deployment(session, active.id, NOW)
        await deployment_rows.lease_environment(session, environment.id, NOW, seconds=-60, doing="building")
    shown = await api.read(_path(api))
    assert (shown["live"]["deployment_id"], shown["live"]["held"]) == (back.id, True)
    assert shown["active_deployment"] == {"id": active.id, "status": "deploying", "step": "build"}
    assert (shown["deployer"]["responds"], shown["deployer"]["doing"]) == (False, "building")


async def test_output_of_running_processes(api: Api, outputs: Outputs) -> None:
    number = await _run(api, "web.1", "web.2", "worker.1", holder=outputs.holder)
    outputs.write(number, "web.1", "one\ntwö\nthree\nunfin")
    outputs.write(number, "web.2", "")
    outputs.write(number, "worker.1", "work\n")
    outputs.write(number, "stopped.1", "old\n")
    outputs.write(number - 1, "web.1", "older\n")
    shown = await api.read(_path(api, "/output?tail=2"), by="viewer")
    assert shown["environment"]["slug"] == "production"
    assert shown["outputs"] == [
        {
            "deployment_id": number,
            "process": "web",
            "number": 1,
            "lines": ["twö", "three"],
            "truncated": True,
            "unfinished": "unfin",
        },
        {
            "deployment_id": number,
            "process": "web",
            "number": 2,
            "lines": [],
            "truncated": False,
            "unfinished": "",
        },
        {
            "deployment_id": number,
            "process": "worker",
            "number": 1,
            "lines": ["work"],
            "truncated": False,
            "unfinished": "",
        },
    ]
    for filters, names in (("process=web", [1, 2]), ("process=web&number=2", [2]), ("process=none", [])):
        shown = await api.read(_path(api, f"/output?{filters}"))
        assert [each["number"] for each in shown["outputs"]] == names
    # If no process runs, the newest deployment shows the reason.
    await _run(api, holder=outputs.holder)
    shown = await api.read(_path(api, "/output"))
    assert [each["process"] for each in shown["outputs"]] == ["stopped", "web", "web", "worker"]


@pytest.mark.parametrize("filters", ["tail=0", "tail=1001", "number=0", "lines=3"])
async def test_invalid_filters(shared_api: Api, filters: str) -> None:
    refused = await shared_api.call("GET", _path(shared_api, f"/output?{filters}"))
    assert refused.problem == (422, "validation-failed")


async def test_output_on_another_machine(api: Api, tmp_path: Path) -> None:
    nothing = await api.expect((409, "conflict"), "GET", _path(api, "/output"))
    assert nothing.json()["detail"] == "No process of shop/production has run yet: deploy it first."
    await _run(api, "web.1", holder="web1:/srv/deploys")
    for folder in (None, tmp_path):
        output = None if folder is None else LocalProcessOutput(folder)
        api.platform.app.state.process_output = output
        for accept in ("application/json", "text/event-stream"):
            refused = await api.call("GET", _path(api, "/output"), headers={"Accept": accept})
            assert refused.problem == (409, "conflict")
            assert refused.json()["host"] == "web1"
            assert "/srv/deploys" not in refused.json()["detail"]
    # The deployer of this machine has the environment, and its processes have not been started yet.
    async with api.platform.sessions() as session, session.begin():
        await deployment_rows.lease_environment(
            session,
            api.platform.acme.environment("shop/production").id,
            NOW,
            holder_name=f"web1:{tmp_path.resolve()}",
        )
    nothing = await api.expect((409, "conflict"), "GET", _path(api, "/output"))
    assert nothing.json()["detail"] == "No process of shop/production has run yet: deploy it first."
    await _run(api, "web.1", holder="web1:/srv/deploys")
    # This machine has old output of the environment, which has moved.
    outputs = Outputs(api, tmp_path)
    outputs.write(1, "web.1", "old\n")
    assert (await api.call("GET", _path(api, "/output"))).json()["host"] == "web1"


@dataclass(slots=True)
class Stream:
    """A stream as its reader receives it."""

    response: aiohttp.ClientResponse
    position: str = ""

    async def next(self) -> dict[str, Any] | None:
        """Return the next event or comment; None at the end."""
        async with asyncio.timeout(_PATIENCE):
            block = b""
            while not block.endswith(b"\n\n"):
                line = await self.response.content.readline()
                if not line:
                    assert not block, block
                    return None
                block += line
        parts = [line.partition(": ")[::2] for line in block.decode().split("\n") if line]
        event = {name: json.loads(value) if name == "data" else value for name, value in parts}
        self.position = str(event.get("id", self.position))
        return event

    async def lines(self) -> list[tuple[str, str]]:
        """Return the lines until the next position, with their processes."""
        found: list[tuple[str, str]] = []
        while True:
            event = await self.next()
            assert event is not None
            if event.get("event") == "position":
                return found
            if event.get("event") == "output":
                data = event["data"]
                found += [(f"{data['process']}.{data['number']}", line) for line in data["lines"]]


@contextlib.asynccontextmanager
async def _follow(
    api: Api, filters: str = "", headers: Mapping[str, str] | None = None
) -> AsyncIterator[Stream]:
    sent = {
        "Authorization": f"Bearer {api.platform.acme.token('viewer')}",
        "Accept": "text/event-stream",
        **(headers or {}),
    }
    path = f"{api.platform.url}/api{_path(api, f'/output{filters}')}"
    async with api.platform.http.get(path, headers=sent) as response:
        yield Stream(response)


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_output, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(stream_output, "_LIST_SECONDS", 0.05)


async def test_stream_follows_and_continues(api: Api, outputs: Outputs) -> None:
    number = await _run(api, "web.1", "web.2", holder=outputs.holder)
    outputs.write(number, "web.1", "one\ntwo\nthree\nunfin")
    async with _follow(api, "?tail=2") as stream:
        assert stream.response.headers["Content-Type"].partition(";")[0] == "text/event-stream"
        assert stream.response.headers["Cache-Control"] == "no-store"
        assert await stream.lines() == [("web.1", "two"), ("web.1", "three")]
        outputs.write(number, "web.1", "ished\n")
        assert await stream.lines() == [("web.1", "unfinished")]
        outputs.write(number, "web.2", "a\nb\r\x1b[31m\u2028\n")
        assert await stream.lines() == [("web.2", "a"), ("web.2", "b\r\x1b[31m\u2028")]
    outputs.write(number, "web.1", "four\n")
    async with _follow(api, headers={"Last-Event-ID": stream.position}) as again:
        assert await again.lines() == [("web.1", "four")]
    # An invalid position starts the stream from the beginning.
    for wrong in ("x", "1/web.1=", "1/web.1=1,", ",".join(["1/web.1=1"] * 501), "9/../../x=1"):
        async with _follow(api, "?tail=1&process=web&number=2", {"Last-Event-ID": wrong}) as again:
            assert await again.lines() == [("web.2", "b\r\x1b[31m\u2028")]


async def test_stream_continues_without_output(api: Api, outputs: Outputs) -> None:
    number = await _run(api, "web.1", holder=outputs.holder)
    outputs.write(number, "web.1", "")
    async with _follow(api) as stream:
        assert await stream.lines() == []
    outputs.write(number, "web.1", "one\ntwo\n")
    async with _follow(api, "?tail=1", {"Last-Event-ID": stream.position}) as again:
        assert await again.lines() == [("web.1", "one"), ("web.1", "two")]


async def test_stream_follows_the_next_deployment(api: Api, outputs: Outputs) -> None:
    first = await _run(api, "web.1", holder=outputs.holder)
    outputs.write(first, "web.1", "first\n")
    async with _follow(api) as stream:
        assert await stream.lines() == [("web.1", "first")]
        second = await _run(api, "web.1", holder=outputs.holder)
        outputs.write(first, "web.1", "last words\n")
        outputs.write(second, "web.1", "second\n")
        found: list[tuple[str, str]] = []
        while len(found) < 2:
            found += await stream.lines()
        assert sorted(found) == [("web.1", "last words"), ("web.1", "second")]


async def test_a_continued_stream_has_the_last_lines_of_ended_processes(api: Api, outputs: Outputs) -> None:
    """These are lines that the earlier stream had not read when it ended."""
    first = await _run(api, "web.1", "web.2", holder=outputs.holder)
    for name in ("web.1", "web.2"):
        outputs.write(first, name, "first\n")
    async with _follow(api) as stream:
        await stream.lines()
    second = await _run(api, "web.1", holder=outputs.holder)
    for name in ("web.1", "web.2"):
        outputs.write(first, name, "last words\n")
    outputs.write(second, "web.1", "second\n")
    async with _follow(api, headers={"Last-Event-ID": stream.position}) as again:
        found = await again.lines()
        assert sorted(found) == [("web.1", "last words"), ("web.1", "second"), ("web.2", "last words")]
        outputs.write(second, "web.1", "third\n")
        assert await again.lines() == [("web.1", "third")]
        # Their offsets are forgotten as soon as the processes are listed again.
        while f"{first}/" in again.position:
            outputs.write(second, "web.1", "more\n")
            assert await again.lines() == [("web.1", "more")]


async def test_stream_sends_comments_while_nothing_is_new(
    api: Api, outputs: Outputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_output, "_KEEPALIVE_SECONDS", 0.05)
    outputs.write(await _run(api, "web.1", holder=outputs.holder), "web.1", "")
    async with _follow(api) as stream:
        assert await stream.lines() == []
        assert await stream.next() == {"": "nothing new"}


async def test_streams_are_limited_and_end_with_the_process(
    api: Api, outputs: Outputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_streams, "MAX_STREAMS_PER_ACCOUNT", 1)
    outputs.write(await _run(api, "web.1", holder=outputs.holder), "web.1", "one\n")
    async with _follow(api) as stream:
        assert await stream.lines() == [("web.1", "one")]
        async with _follow(api) as other:
            assert other.response.status == 503
        assert (await api.call("GET", _path(api, "/output"))).status == 200
        api.platform.app.state.log_streams.stop()
        while await stream.next() is not None:
            pass


async def test_stream_ends_when_the_environment_moves_away(api: Api, outputs: Outputs) -> None:
    outputs.write(await _run(api, "web.1", holder=outputs.holder), "web.1", "one\n")
    async with _follow(api) as stream:
        assert await stream.lines() == [("web.1", "one")]
        await _run(api, "web.1", holder="web2:/srv/deploys")
        while await stream.next() is not None:
            pass
