"""Lone surrogate escapes become U+FFFD, and nothing else changes."""

import itertools
import json
import random
import re

import pytest

from consumers.transforms.telemetry_rows import telemetry_rows
from ingest_edge.decoders.telemetry import decode_batch
from ingest_edge.limits import Limits
from pipeline_contracts.settings import Settings
from pipeline_contracts.surrogates import replace_lone_surrogates
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from tests.support.telemetry_records import meta

_LONE = re.compile("[\ud800-\udfff]")
_PIECES = (r"\ud83d", r"\ude00", r"\uDBFF", r"\udc00", r"\u0041", r"\\", r"\"", "d83d", "x")


def _expected(text: str) -> str:
    """Decode with a decoder that joins pairs and keeps lone surrogates, and replace those."""
    return _LONE.sub("\ufffd", json.loads(text))


def _replaced(text: str) -> str:
    body = text.encode()
    found = replace_lone_surrogates(body)
    assert len(found) == len(body)
    assert (found is body) == (_LONE.search(json.loads(text)) is None)
    return json.loads(found)


def test_all_sequences_of_four_pieces() -> None:
    for pieces in itertools.product(_PIECES, repeat=4):
        text = '"' + "".join(pieces) + '"'
        assert _replaced(text) == _expected(text), text


@pytest.mark.parametrize("seed", range(3))
def test_pieces_across_the_slices_of_a_large_body(seed: int) -> None:
    chance = random.Random(seed)
    text = '"' + "".join(chance.choices(_PIECES, k=40_000)) + '"'
    assert _replaced(text) == _expected(text)


def test_body_that_is_not_utf8_stays_unchanged() -> None:
    body = rb'"\ud83d' + b'\xff\xff"'
    assert replace_lone_surrogates(body) is body


async def test_an_ingested_batch_is_stored_and_read_by_the_column_store(
    column_store: ChdbColumnStore,
) -> None:
    """This covers typed members, and free-form members, which ClickHouse parses at query time."""
    event = {
        "type": "log",
        "name": "cut \ud83d",
        "attributes": {"\udc00": {"text": "cut \ud83d off"}, "whole": "\U0001f600"},
        "payload": {"large": 2**80, "lines": ["\\ud83d", "\ud83d"]},
        "unknown": "\ud83d",
    }
    body = json.dumps({"batch_id": "b\ud83d", "events": [event] * 2}).encode()
    batch, stored = decode_batch(body, Limits.from_settings(Settings()))
    assert (batch.batch_id, len(batch.events)) == ("b\ufffd", 2)
    lines = telemetry_rows(stored, meta("env_1", batch.batch_id, 2), "rcp_1", "log/0", 1).lines.splitlines()
    row = json.loads(lines[0])
    assert row["name"] == "cut \ufffd"
    at = lines[0].index(b'"attributes":') + len(b'"attributes":')
    attributes = lines[0][at : lines[0].index(b',"payload":')].decode()
    payload = lines[0][lines[0].index(b'"payload":') + len(b'"payload":') :].decode()
    payload = json.dumps(json.JSONDecoder().raw_decode(payload)[0])
    result = await column_store.query(
        "SELECT JSONExtractString({a:String}, '\ufffd', 'text'), JSONExtractString({a:String}, 'whole'), "
        "JSONExtractFloat({p:String}, 'large'), JSONExtract({p:String}, 'lines', 'Array(String)')",
        {"a": attributes, "p": payload},
    )
    assert result.rows[0] == ["cut \ufffd off", "\U0001f600", 2.0**80, [r"\ud83d", "\ufffd"]]
