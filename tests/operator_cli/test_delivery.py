"""Delivery of a batch when the server or the connection fails."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from operator_cli.errors import CommandFailed
from tests.operator_cli.fake_ingest import FakeIngest, Fault, answer, cut_connection, send, write_events

Rule = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse | None]]


@pytest.fixture
def events(tmp_path: Path) -> Path:
    write_events(tmp_path / "events.ndjson", range(25))
    return tmp_path / "events.ndjson"


async def test_every_event_arrives_once_and_in_whole_batches(tmp_path: Path, events: Path) -> None:
    ingest = FakeIngest()
    async with ingest.serve() as url:
        report, messages = await send(url, tmp_path / "state", events)
    assert ingest.counts() == {str(n): 1 for n in range(25)}
    # Batches are in flight at the same time, and arrive in any order.
    assert sorted(len(batch) for batch in ingest.stored.values()) == [5, 10, 10]
    totals = report.totals
    assert (totals.files, totals.batches, totals.events_sent, totals.accepted) == (1, 3, 25, 25)
    assert (totals.resent, totals.skipped_lines, totals.refused_events) == (0, 0, 0)
    assert totals.bytes_read == events.stat().st_size
    assert not messages


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
async def test_a_transient_refusal_is_retried(tmp_path: Path, events: Path, status: int) -> None:
    ingest = FakeIngest()
    ingest.faults += [answer(status), answer(status)]
    async with ingest.serve() as url:
        report, messages = await send(url, tmp_path / "state", events)
    assert ingest.counts() == {str(n): 1 for n in range(25)}
    assert report.totals.resent == 2
    assert f"answers {status}; trying again in" in messages[0]


@pytest.mark.parametrize("stored", [False, True])
async def test_a_broken_connection_resends_the_same_batch(tmp_path: Path, events: Path, stored: bool) -> None:
    ingest = FakeIngest()
    ingest.faults += [cut_connection(ingest, stored=stored)] * 2
    async with ingest.serve() as url:
        report, _ = await send(url, tmp_path / "state", events)
    assert ingest.counts() == {str(n): 1 for n in range(25)}
    assert len(ingest.requests) == 3 + report.totals.resent
    assert not ingest.conflicts


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "ingest key"),
        (403, "may not"),
        (404, "/api"),
        (415, "Pharos"),
        (400, "400"),
        (301, "301"),
        (200, "200"),
    ],
)
async def test_a_permanent_refusal_fails_the_command(
    tmp_path: Path, events: Path, status: int, words: str
) -> None:
    ingest = FakeIngest()
    ingest.rule = answer(status, {"detail": "Because."}, Location="http://127.0.0.1/elsewhere")
    async with ingest.serve() as url:
        with pytest.raises(CommandFailed, match=rf"answers {status}.*{re.escape(words)}|{status}.*Because"):
            await send(url, tmp_path / "state", events)
    assert not ingest.stored


async def test_a_202_without_a_receipt_is_an_error(tmp_path: Path, events: Path) -> None:
    ingest = FakeIngest()
    ingest.rule = answer(202, {"status": "ok"})
    async with ingest.serve() as url:
        with pytest.raises(CommandFailed, match="without a receipt"):
            await send(url, tmp_path / "state", events)


def refuse_events(*faulty: str) -> Fault:
    """Return a rule that refuses these events like the platform, but names at most two in one response."""

    async def rule(request: web.Request, body: dict[str, Any]) -> web.StreamResponse | None:
        errors = [
            {"field": f"events[{index}].severity", "message": "must be one of debug, info"}
            for index, event in enumerate(body["events"])
            if event["id"] in faulty
        ]
        return (
            web.json_response({"detail": "Correct it.", "errors": errors[:2]}, status=422) if errors else None
        )

    return rule


async def test_refused_events_are_named_by_line_and_the_rest_is_sent(tmp_path: Path, events: Path) -> None:
    ingest = FakeIngest()
    ingest.rule = refuse_events("3", "5", "7", "20")
    async with ingest.serve() as url:
        report, messages = await send(url, tmp_path / "state", events)
    assert ingest.counts() == {str(n): 1 for n in range(25) if n not in (3, 5, 7, 20)}
    assert report.totals.refused_events == 4
    assert {message.partition(": refused")[0] for message in messages} == {
        f"pharos: {events}:{line}" for line in (4, 6, 8, 21)
    }
    assert "severity must be one of" in messages[0]


async def test_the_rest_of_a_batch_has_the_same_id_each_time(tmp_path: Path, events: Path) -> None:
    ingest = FakeIngest()
    ingest.rule = refuse_events("3", "5", "7")
    async with ingest.serve() as url:
        await send(url, tmp_path / "state", events)
        first, ingest.requests = ingest.requests, []
        # The saved progress is lost.
        await send(url, tmp_path / "other", events)
    assert sorted(ingest.requests) == sorted(first)
    assert not ingest.conflicts


async def test_a_batch_of_refused_events_only_is_skipped(tmp_path: Path, events: Path) -> None:
    ingest = FakeIngest()
    ingest.rule = refuse_events(*map(str, range(10)))
    async with ingest.serve() as url:
        report, messages = await send(url, tmp_path / "state", events)
    assert ingest.counts() == {str(n): 1 for n in range(10, 25)}
    assert report.totals.refused_events == 10
    # The first five are printed, then a line that more follow.
    assert len(messages) == 6


async def test_a_refusal_that_names_no_event_is_narrowed_down(tmp_path: Path, events: Path) -> None:
    async def rule(request: web.Request, body: dict[str, Any]) -> web.StreamResponse | None:
        if all(event["id"] != "13" for event in body["events"]):
            return None
        errors = [{"field": "", "message": "is nested deeper than 64 levels"}]
        return web.json_response({"errors": errors}, status=422)

    ingest = FakeIngest()
    ingest.rule = rule
    async with ingest.serve() as url:
        _, messages = await send(url, tmp_path / "state", events)
    assert ingest.counts() == {str(n): 1 for n in range(25) if n != 13}
    assert messages == [f"pharos: {events}:14: refused: is nested deeper than 64 levels"]


@pytest.mark.parametrize("errors", [[], [{"field": "batch_id", "message": "is odd"}]])
async def test_a_refusal_that_is_not_about_events_fails_the_command(
    tmp_path: Path, events: Path, errors: list[dict[str, str]]
) -> None:
    ingest = FakeIngest()
    ingest.rule = answer(422, {"detail": "No.", "errors": errors})
    async with ingest.serve() as url:
        with pytest.raises(CommandFailed, match="refuses every batch"):
            await send(url, tmp_path / "state", events)


async def test_a_batch_too_large_is_halved_until_it_fits(tmp_path: Path, events: Path) -> None:
    async def rule(request: web.Request, body: dict[str, Any]) -> web.StreamResponse | None:
        too_large = len(body["events"]) > 3 or any(event["id"] == "8" for event in body["events"])
        return web.json_response({"detail": "Too large."}, status=413) if too_large else None

    ingest = FakeIngest()
    ingest.rule = rule
    async with ingest.serve() as url:
        _, messages = await send(url, tmp_path / "state", events)
        first, ingest.requests = ingest.requests, []
        await send(url, tmp_path / "other", events)
    assert ingest.counts() == {str(n): 1 for n in range(25) if n != 8}
    assert messages == [f"pharos: {events}:9: refused: Too large."]
    assert sorted(ingest.requests) == sorted(first)
    assert not ingest.conflicts


async def test_strict_fails_at_the_first_fault(tmp_path: Path, events: Path) -> None:
    ingest = FakeIngest()
    ingest.rule = refuse_events("12")
    async with ingest.serve() as url:
        with pytest.raises(CommandFailed, match=re.escape(f"{events}:13: refused")):
            await send(url, tmp_path / "state", events, strict=True)
        first, rest = events.read_text().split("\n", 1)
        events.write_text(f"{first}\noops\n{rest}")
        with pytest.raises(CommandFailed, match=re.escape(f"{events}:2: is not valid JSON")):
            await send(url, tmp_path / "other", events, strict=True)
    assert not {str(n) for n in range(10, 20)} & set(ingest.counts())
