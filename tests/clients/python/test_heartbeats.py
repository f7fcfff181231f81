"""Runs of jobs are reported to ping URLs, and a ping that fails never affects the job."""

import asyncio
import logging
import threading
import urllib.parse
from typing import Any

import pytest

from pharos_client import diagnostics, heartbeat, heartbeats
from tests.clients.python.conftest import RunningPlatform
from tests.clients.python.scripted_server import Received, Reply, scripted_server
from tests.support.engines import free_port
from tests.support.waits import wait_until


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(heartbeats, "_LONGEST_PAUSE", 0.02)
    monkeypatch.setattr(diagnostics, "_last", {})


def test_runs_arrive_with_their_result_and_traceback(platform: RunningPlatform) -> None:
    created = platform.run_json("heartbeat", "create", "backup", "--period", "1h", "--failures", "9")
    key = created["ping_key"]["key"]
    watch = heartbeat(f"{platform.url}/ping/{key}")

    @watch
    def succeed(value: int) -> int:
        """Double it."""
        return 2 * value

    @watch
    async def fail_later() -> None:
        await asyncio.sleep(0)
        raise ValueError("no space left")

    assert (succeed(21), succeed.__doc__) == (42, "Double it.")
    with pytest.raises(ValueError, match="no space left"):
        asyncio.run(fail_later())
    with pytest.raises(SystemExit), watch as run:
        run.output = "copied 3 files"
        raise SystemExit(3)
    # Two concurrent runs of one heartbeat are separate.
    with watch as outer, heartbeat(key, base_url=platform.url) as inner:
        outer.output, inner.output = "outer", "inner"

    def runs() -> Any:
        return platform.run_json("heartbeat", "show", "backup")["runs"]

    wait_until(lambda: [run["outcome"] for run in runs()].count("succeeded") == 3 and len(runs()) == 5)
    by_id = {run["run_id"]: run for run in runs()}
    assert all(run["duration_seconds"] is not None for run in by_id.values())
    assert by_id[run.id]["outcome"] == "failed" and by_id[outer.id]["outcome"] == "succeeded"
    failed = [each for each in by_id.values() if each["outcome"] == "failed" and each["run_id"] != run.id]

    def output(run_id: str) -> str:
        text: str = platform.run_json("heartbeat", "output", "backup", run_id)["output"]
        return text

    assert "ValueError: no space left" in output(failed[0]["run_id"])
    assert output(run.id).startswith("copied 3 files\nTraceback")
    assert output(inner.id) == "inner"


async def test_runs_of_tasks_and_threads_do_not_mix() -> None:
    with scripted_server() as server:
        watch = heartbeat(f"{server.url}/ping/phr_png_x")
        entered, leave = asyncio.Barrier(3), asyncio.Event()

        async def work(name: str, fails: bool) -> str:
            try:
                async with watch as run:
                    run.output = name
                    await entered.wait()
                    await leave.wait()
                    if fails:
                        raise ValueError(name)
            except ValueError:
                pass
            return run.id

        tasks = [asyncio.create_task(work("first", False)), asyncio.create_task(work("second", True))]
        await entered.wait()
        leave.set()
        first, second = await asyncio.gather(*tasks)
        results = {request.path: request.body for request in server.requests if "start" not in request.path}
    assert results[f"/ping/phr_png_x?rid={first}"] == b"first"
    assert results[f"/ping/phr_png_x/fail?rid={second}"].startswith(b"second\nTraceback")


def test_a_url_keeps_its_path_and_query() -> None:
    with scripted_server() as server:
        with heartbeat(f"{server.url}/ping/phr_prj_x/nightly?create=1"):
            pass
        paths = [urllib.parse.urlsplit(request.path) for request in server.requests]
    assert [path.path for path in paths] == ["/ping/phr_prj_x/nightly/start", "/ping/phr_prj_x/nightly"]
    queries = [urllib.parse.parse_qs(path.query) for path in paths]
    assert queries[0] == queries[1] and queries[0]["create"] == ["1"] and len(queries[0]["rid"][0]) == 36


def test_a_failing_platform_never_breaks_the_job(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(heartbeats, "_GIVE_UP_SECONDS", 0.1)
    monkeypatch.setattr(heartbeats, "_REQUEST_SECONDS", 0.1)
    stuck = threading.Event()
    with caplog.at_level(logging.WARNING), scripted_server(lambda *_: Reply(wait=stuck)) as silent:
        with scripted_server(lambda *_: Reply(404)) as unknown:
            nobody = f"http://127.0.0.1:{free_port()}"
            for host in (nobody, unknown.url, silent.url):
                done = []
                with heartbeat(f"{host}/ping/phr_png_secret"):
                    done.append("job")
                with pytest.raises(KeyError), heartbeat(f"{host}/ping/phr_png_secret"):
                    raise KeyError("the job's own")
                assert done == ["job"]
            assert len(unknown.requests) == 4
        stuck.set()
    assert "was not reported" in caplog.text and "phr_png_secret" not in caplog.text


def test_a_ping_is_sent_again_until_the_platform_is_back() -> None:
    def respond(number: int, _request: Received) -> Reply:
        return Reply(503) if number in (0, 1, 3, 4) else Reply(200)

    with scripted_server(respond) as server:
        started = threading.Event()
        with heartbeat(f"{server.url}/ping/phr_png_x") as run:
            wait_until(lambda: len(server.requests) == 3)
            started.set()
        paths = [request.path.split("?")[0] for request in server.requests]
        assert paths == ["/ping/phr_png_x/start"] * 3 + ["/ping/phr_png_x"] * 3
        assert all(run.id in request.path for request in server.requests)


@pytest.mark.parametrize("target", ["", "ftp://host/ping/x", "http:///ping/x"])
def test_a_wrong_target_is_refused(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PHAROS_URL", raising=False)
    with pytest.raises(ValueError, match="ping URL"):
        heartbeat(target)
    with pytest.raises(ValueError, match="base_url"):
        heartbeat("phr_png_key_alone")
