"""`pharos tail` against an operator's socket."""

import argparse
import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from operator_cli.errors import CommandFailed
from operator_cli.telemetry.tail import UnshownEvents, _tail, format_event, register_tail


def event(offset: int, position: int = 0, *, ms: int = 0, **fields: Any) -> dict[str, Any]:
    moment = f"2026-01-31T12:00:{ms // 1000:02d}.{ms % 1000:03d}000+00:00"
    return {
        "environment_id": "env_1",
        "received_at": moment,
        "timestamp": moment,
        "type": "log",
        "severity": "",
        "name": "",
        "title": f"event {offset}",
        "service": "",
        "route": "",
        "url": "",
        "status_code": None,
        "duration_ms": None,
        "position": position,
        "log_offset": offset,
        **fields,
    }


class FakeOperator:
    """Sends one response after the other, then repeats the last."""

    def __init__(self, folder: Path, *answers: list[dict[str, Any]]) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, str]] = []
        self.all_asked = asyncio.Event()
        self._socket = folder / "operator.sock"

    async def __aenter__(self) -> "FakeOperator":
        app = web.Application()
        app.router.add_get("/events", self._events)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.UnixSite(self._runner, str(self._socket)).start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._runner.cleanup()

    async def _events(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(dict(request.query))
        if len(self.asked) > len(self.answers):
            self.all_asked.set()
        # Newest first, like the socket.
        rows = self.answers[min(len(self.asked), len(self.answers)) - 1][::-1]
        return web.Response(body=orjson.dumps(rows), content_type="application/json")


def parse(folder: Path, *arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    register_tail(parser.add_subparsers())
    return parser.parse_args(["tail", "--data", str(folder), *arguments])


async def test_the_newest_events_are_shown_oldest_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        event(1, severity="error", type="request", name="GET /", status_code=500, duration_ms=12.34),
        event(2, ms=1500, title="two\n\x1b[2Jlines", service="shop"),
    ]
    async with FakeOperator(tmp_path, rows) as operator:
        await _tail(parse(tmp_path, "-n", "5", "--environment", "env_1"))
    assert capsys.readouterr().out.splitlines() == [
        "2026-01-31 12:00:00.000  request    error     GET / event 1  500  12.3 ms",
        "2026-01-31 12:00:01.500  log                  shop  two  [2Jlines",
    ]
    assert operator.asked == [{"environment": "env_1", "limit": "5"}]


async def test_json_is_one_event_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [event(1), event(2)]
    async with FakeOperator(tmp_path, rows):
        await _tail(parse(tmp_path, "--json"))
    assert [orjson.loads(line) for line in capsys.readouterr().out.splitlines()] == rows


async def test_following_shows_each_event_once_even_if_stored_late(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def do_not_wait(seconds: float) -> None:
        await sleep(0)

    sleep = asyncio.sleep
    monkeypatch.setattr("operator_cli.telemetry.tail.asyncio.sleep", do_not_wait)
    old, new = event(1, ms=7000), event(2, ms=9000)
    late = event(3, ms=8000)
    async with FakeOperator(tmp_path, [old], [old, new], [old, late, new]) as operator:
        following = asyncio.create_task(_tail(parse(tmp_path, "--follow", "--json")))
        await operator.all_asked.wait()
        following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following
    shown = [orjson.loads(line)["log_offset"] for line in capsys.readouterr().out.splitlines()]
    assert shown == [1, 2, 3]
    # From the newest event shown at the start: older ones were not requested.
    assert {asked["since_ms"] for asked in operator.asked[1:]} == {"1769860806999"}


def test_shown_events_are_forgotten_after_the_overlap() -> None:
    unshown = UnshownEvents(0, [])
    for n in range(50):
        assert len(unshown.take([event(n, ms=1000 * n)])) == 1
    assert len(unshown._seen) <= 7


def test_colours_follow_severity() -> None:
    assert "red" in str(format_event(event(1, severity="error")).style)
    assert format_event(event(1, severity="info")).style == ""


def test_nothing_runs(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="Nothing runs on"):
        asyncio.run(_tail(parse(tmp_path)))


@pytest.mark.parametrize("count", ["0", "1001", "many"])
def test_the_number_of_lines_is_limited(tmp_path: Path, count: str) -> None:
    with pytest.raises(SystemExit):
        parse(tmp_path, "-n", count)
