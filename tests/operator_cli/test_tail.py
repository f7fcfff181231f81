"""`pharos tail` with a server whose responses a test sets."""

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from operator_cli.api.client import Api
from operator_cli.errors import CommandFailed
from operator_cli.telemetry import follow_newest, tail
from operator_cli.telemetry.event_line import format_event
from operator_cli.telemetry.follow_newest import UnshownRows
from operator_cli.telemetry.tail import register_tail
from tests.support.fake_api import Answer, FakeApi, page, problem, running_fake_api


def event(number: int, *, ms: int = 0, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"e{number}",
        "timestamp": f"2026-01-31T12:00:{ms // 1000:02d}.{ms % 1000:03d}Z",
        "type": "log",
        "severity": None,
        "name": None,
        "title": f"event {number}",
        "service": None,
        "route": None,
        "url": None,
        "status_code": None,
        "duration_ms": None,
        **fields,
    }


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    """A server with one environment, which commands use."""
    with running_fake_api() as running, Api(running.target) as api:
        environment = {"id": "env_1", "slug": "production", "name": "Production"}
        project = {"id": "prj_1", "slug": "shop", "name": "Shop", "environments": [environment]}
        running.by_path["/api/v1/projects"] = page([project])
        monkeypatch.setattr(tail, "open_api", lambda _arguments: api)
        yield running


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    register_tail(parser.add_subparsers())
    return parser.parse_args(["tail", *arguments])


def run(*arguments: str) -> int:
    parsed = parse(*arguments)
    status: int = parsed.run(parsed)
    return status


def queries(server: FakeApi) -> list[dict[str, str]]:
    """Return the queries of the requests for events."""
    urls = [urlsplit(request.path) for request in server.requests]
    assert {url.path for url in urls} == {"/api/v1/projects", "/api/v1/environments/env_1/events"}
    found = [parse_qs(url.query) for url in urls if url.path.endswith("/events")]
    return [{name: value for name, (value,) in query.items()} for query in found]


def test_the_newest_events_are_shown_oldest_first(
    server: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    first = event(1, severity="error", type="request", name="GET /", status_code=500, duration_ms=12.34)
    server.answers.append(page([event(2, ms=1500, title="two\n\x1b[2Jlines", service="shop"), first]))
    assert run("-n", "5", "--environment", "shop/production", "--service", "shop") == 0
    assert capsys.readouterr().out.splitlines() == [
        "2026-01-31 12:00:00.000  request    error     GET / event 1  500  12.3 ms",
        "2026-01-31 12:00:01.500  log                  shop  two  [2Jlines",
    ]
    assert queries(server) == [{"service": "shop", "since": "604800s", "limit": "5"}]


def test_tail_without_events(server: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    server.answers.append(page([]))
    assert run("--since", "30d") == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == (
        "",
        "No events of shop/production in the last 30d; --since looks further back.\n",
    )
    assert queries(server)[0]["since"] == "43200m"


def test_json_is_one_event_a_line(server: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [event(2), event(1)]
    server.answers.append(page(rows))
    run("--json")
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == rows[::-1]


class Stopped(BaseException):
    """The test ends the command."""


class Clock:
    """Ends `--follow` after some pauses, which take no time."""

    def __init__(self) -> None:
        self.left = 0

    def sleep(self, _seconds: float) -> None:
        if not self.left:
            raise Stopped
        self.left -= 1

    def monotonic(self) -> float:
        return time.monotonic()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(follow_newest, "time", made)
    return made


def follow(clock: Clock, count: int, *arguments: str) -> None:
    """Run the command until it has read `count` times after its start."""
    clock.left = count
    with pytest.raises(Stopped):
        run("--follow", "--json", *arguments)


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()]


def test_following_shows_each_event_once(
    server: FakeApi, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    before, old, new, late = event(0, ms=7000), event(1, ms=7000), event(2, ms=9000), event(3, ms=8000)
    same = event(2, ms=9000)
    for rows in ([old, before], [new, old, before], [new, late, old, before], [new, same, late, old]):
        server.answers.append(page(rows))
    follow(clock, 3, "-n", "1")
    # Two equal events are separate events.
    assert shown(capsys) == ["e1", "e2", "e3", "e2"]
    assert [query["since"] for query in queries(server)] == ["604800s", "60s", "60s", "60s"]


def test_events_before_the_known_ones_are_not_new() -> None:
    unshown = UnshownRows([event(2, ms=2), event(1, ms=1)], is_full=True, now=0.0)
    new, _ = unshown.take(iter([[event(3, ms=3), event(2, ms=2), event(1, ms=1), event(0, ms=0)]]), 1.0)
    assert [row["id"] for row in new] == ["e3"]


def test_following_reads_on_while_a_page_has_new_events(
    server: FakeApi, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers += [
        page([event(1, ms=1), event(0)]),
        page([event(4, ms=4), event(3, ms=3)], "next"),
        page([event(2, ms=2), event(1, ms=1)], "further"),
        page([event(0)], "unread"),
        page([event(4, ms=4)], "unread"),
    ]
    follow(clock, 2)
    assert shown(capsys) == ["e0", "e1", "e2", "e3", "e4"]
    assert [query.get("cursor") for query in queries(server)] == [None, None, "next", "further", None]


def test_following_waits_for_an_unavailable_installation(
    server: FakeApi, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    """No event that was read before the outage is lost."""
    away = Answer(status=503, content=b"", headers={"Retry-After": "100"})
    busy = problem(429, "rate-limited", "Too many requests.")
    busy = Answer(busy.status, busy.content, {**busy.headers, "Retry-After": "100"})
    second = event(2, ms=2)
    server.answers += [
        page([event(1)]),
        page([second], "next"),
        away,
        busy,
        page([second, event(1)]),
    ]
    follow(clock, 3)
    captured = capsys.readouterr()
    assert [json.loads(line)["id"] for line in captured.out.splitlines()] == ["e1", "e2"]
    assert captured.err.count("Still waiting.") == 1


def test_a_refusal_ends_the_command(server: FakeApi, clock: Clock) -> None:
    server.answers += [page([]), problem(403, "missing-scope", "It lacks telemetry:read.")]
    clock.left = 5
    with pytest.raises(CommandFailed, match="telemetry:read"):
        run("--follow")


def test_too_many_events_are_cut(server: FakeApi, clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    server.answers.append(page([]))
    for number in range(10):
        rows = [event(1000 - number * 100 - row, ms=row) for row in range(100)]
        server.answers.append(page(rows, f"c{number}"))
    follow(clock, 1)
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 1000
    assert "More rows arrived than can be shown." in captured.err


def test_seen_events_are_forgotten() -> None:
    unshown = UnshownRows([], is_full=False, now=0.0)
    for number in range(50):
        new, _ = unshown.take(iter([[event(number)]]), float(number))
        assert len(new) == 1
        unshown.forget(before=number - 5.0)
    assert len(unshown._seen) == len(unshown._seen_at) == 6


def test_colours_follow_severity() -> None:
    assert "red" in str(format_event(event(1, severity="error")).style)
    assert format_event(event(1, severity="info")).style == ""


@pytest.mark.parametrize("arguments", [["-n", "0"], ["-n", "1001"], ["-n", "many"], ["--type", "trace"]])
def test_wrong_arguments_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        parse(*arguments)
