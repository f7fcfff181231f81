"""No personal data is stored: searches every column, log line, record and file."""

import ipaddress
import logging
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from consumers.chunk import Chunk
from consumers.insert_chunk import insert_chunk
from consumers.transforms.pageviews_topic import PageviewsTopic
from pipeline_contracts import topics
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from tests.ingest_edge.conftest import RunningEdge, open_edge
from tests.support.site_traffic import ignore_step

_ADDRESSES = ("203.0.113.77", "198.51.100.201", "2001:db8:85a3::8a2e:370:7334")
_MARK = "PrivacyTestBrowser"
_AGENTS = (
    f"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.7339.{_MARK} Safari/537.36",
    f"Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 Mobile/{_MARK} Safari/604.1",
)
_BOT = f"Googlebot/2.1 {_MARK}"
_GIVEN = ("visitor-of-the-privacy-test", "session-of-the-privacy-test", "vital-of-the-privacy-test")


def _needles() -> list[str]:
    """Return texts that must not be found: addresses in each notation, User-Agents and user input."""
    found = [_MARK, *_AGENTS, _BOT, *_GIVEN]
    for text in _ADDRESSES:
        address = ipaddress.ip_address(text)
        found += [text, address.exploded, str(int(address)), address.packed.hex()]
    return found


@pytest.fixture
async def edge(tmp_path: Path) -> AsyncIterator[RunningEdge]:
    async with open_edge(tmp_path, trusted_proxies="127.0.0.1") as running:
        yield running


def _events() -> list[dict[str, Any]]:
    def one(kind: str, **rest: Any) -> dict[str, Any]:
        return {"id": str(uuid.uuid4()), "type": kind, "path": "/private", **rest}

    vital = {"name": "Web Vital", "metric": "LCP", "value": 1200, "id": _GIVEN[2]}
    return [
        one("pageview", referrer_host="www.google.com"),
        one("pageview", visitor=_GIVEN[0], session=_GIVEN[1]),
        one("event", properties=vital),
        one("event", properties={"name": "purchase", "revenue": 12, "currency": "EUR"}),
    ]


async def _visit(edge: RunningEdge) -> None:
    """Send requests that are accepted, dropped and refused, each with an address and a User-Agent."""
    tracker_id = await edge.open_site("https://shop.example")
    for address in _ADDRESSES:
        for agent in (*_AGENTS, _BOT):
            headers = {"X_Forwarded_For": address, "User_Agent": agent}
            assert (await edge.collect(tracker_id, _events(), **headers)).status == 202
            assert (await edge.collect(tracker_id, _events(), Sec_GPC="1", **headers)).status == 202
            assert (await edge.collect(tracker_id, [{"id": 1}], **headers)).status == 422
            assert (
                await edge.collect(tracker_id, _events(), "https://evil.example", **headers)
            ).status == 403
            assert (await edge.collect("sit_unknown", _events(), **headers)).status == 404
    await edge.dropped.flush()


async def test_nothing_that_identifies_a_person_is_stored(
    edge: RunningEdge, column_store: ChdbColumnStore, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    await _visit(edge)
    await edge.fill_disk()
    refused = await edge.collect("sit_unknown", _events(), User_Agent=_AGENTS[0])
    assert refused.status == 404
    await edge.free_disk()

    records = await edge.appended(topics.PAGEVIEWS)
    assert len(records) == len(_ADDRESSES) * len(_AGENTS) + 1
    topic = PageviewsTopic()
    chunk = Chunk("privacy/0", 0, records[-1].offset + 1, records)
    rows = await topic.make_rows(chunk, column_store)
    await insert_chunk(column_store, chunk, rows.tables, topic, tried_before=False, on_step=ignore_step)

    found_texts = [f"record: {record.key!r} {record.meta!r} {record.value!r}" for record in records]
    found_texts += [f"line: {record.getMessage()} {record.__dict__}" for record in caplog.records]
    found_texts += [
        f"file {path.name}: {path.read_bytes()!r}" for path in tmp_path.rglob("*") if path.is_file()
    ]
    found_texts += [f"column {name}: {text}" async for name, text in _columns(column_store)]
    for needle in _needles():
        found = [text[:200] for text in found_texts if needle in text]
        assert found == [], needle
    assert any("/private" in text and text.startswith("column pageviews.path") for text in found_texts)
    assert any("/private" in text and text.startswith("record") for text in found_texts)


async def _columns(store: ChdbColumnStore) -> AsyncIterator[tuple[str, str]]:
    """Yield every column of every table, with all values as text."""
    sql = "SELECT table, name FROM system.columns WHERE database = 'pharos' ORDER BY table, name"
    for table, column in (await store.query(sql)).rows:
        where = "WHERE log = 'privacy/0'" if table in ("pageviews", "dropped_pageviews") else ""
        values = await store.query(
            f"SELECT arrayStringConcat(groupArray(20000)(toString(`{column}`)), ' ') FROM pharos.`{table}` {where}"
        )
        yield f"{table}.{column}", values.rows[0][0]
