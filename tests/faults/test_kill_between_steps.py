"""`kill -9` between any two steps of the consumer's loop loses and repeats no events."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.faults.kill_points import ALL_STEPS, STATES
from tests.otlp.requests import attribute, logs
from tests.support.platform_process import PlatformProcess

_KILLABLE = [sys.executable, "-m", "tests.faults.killable_up"]
_EVENTS = 50
# Five blocks of rows: each row repeats the attribute of the resource.
_LARGE_RECORDS = 2200
_LARGE_ATTRIBUTE = "x" * 32_600
_MOST_BATCHES = 2000
_STORED = """
    SELECT service AS step, count() AS stored, uniqExact(id) AS ids
    FROM pharos.telemetry_events GROUP BY service
"""
_LARGE_STORED = "SELECT count() AS rows, uniqExact(Body) AS records FROM pharos.otel_logs"
_DOUBLE_RECEIPTS = """
    SELECT receipt_id FROM pharos.ingest_receipts WHERE outcome = 'stored' GROUP BY receipt_id HAVING count() != 1
"""


def _batch(step: str, number: int) -> dict[str, Any]:
    ids = range(_EVENTS * number, _EVENTS * (number + 1))
    return {
        "batch_id": f"{step} {number}",
        "events": [{"type": "log", "service": step, "id": f"{step} {i}"} for i in ids],
    }


def _send_until_killed(platform: PlatformProcess, step: str) -> list[dict[str, Any]]:
    """Keep sending, so that more records than the interrupted chunk are available after the kill."""
    sent = []
    for number in range(_MOST_BATCHES):
        if number == 20:
            (platform.data / "kill-at").write_text(step)
        sent.append(_batch(step, number))
        try:
            assert platform.ingest(sent[-1]).status == 202
        except OSError:
            break
    assert platform.wait_for_end() == -9
    (platform.data / "kill-at").unlink()
    return sent


@pytest.mark.timeout(900)
@pytest.mark.parametrize("steps", [STATES, pytest.param(ALL_STEPS, marks=pytest.mark.full)], ids=len)
def test_a_kill_at_each_step_leaves_each_event_stored_once(tmp_path: Path, steps: list[str]) -> None:
    platform = PlatformProcess(tmp_path / "data", command=_KILLABLE)
    sent: dict[str, int] = {}
    unanswered: list[dict[str, Any]] = []
    try:
        for step in steps:
            platform.start()
            # No records may be left: a chunk that ends at the limit of rows would get the same bounds again anyway.
            platform.wait_until_consumed()
            batches = _send_until_killed(platform, step)
            sent[step] = len(batches)
            # The last batch got no response: send it again, as a client does.
            unanswered.append(batches[-1])
        platform.start()
        receipts = [platform.ingest(batch).json["data"]["id"] for batch in unanswered]
        platform.wait_until_consumed()

        stored = {row["step"]: (row["stored"], row["ids"]) for row in platform.query(_STORED)}
        assert stored == {step: (_EVENTS * n, _EVENTS * n) for step, n in sent.items()}
        assert {platform.receipt(r).json["data"]["status"] for r in receipts} == {"stored"}
        assert platform.query(_DOUBLE_RECEIPTS) == []
        assert platform.stop() == 0
    finally:
        platform.kill()


# tests/consumers/test_split_records.py covers a fault at each block of smaller records.
@pytest.mark.full
@pytest.mark.timeout(300)
def test_a_kill_between_the_blocks_of_one_record_stores_each_row_once(tmp_path: Path) -> None:
    """The rows need more than one block: the next start inserts the missing ones."""
    # Like a request from an edge without a limit on the rows of a request.
    variables = {"PHAROS_MAX_EXPANDED_BYTES": str(2**30)}
    platform = PlatformProcess(tmp_path / "data", command=_KILLABLE, env=variables)
    body = logs(*[{"body": {"stringValue": str(n)}} for n in range(_LARGE_RECORDS)])
    shared = attribute("a", stringValue=_LARGE_ATTRIBUTE)
    body["resourceLogs"][0]["resource"] = {"attributes": [shared]}
    try:
        platform.start()
        (platform.data / "kill-at").write_text("between blocks pharos.otel_logs")
        headers = {
            "Authorization": f"Bearer {platform.credentials['ingest_key']}",
            "Content-Type": "application/json",
        }
        path = "/api/v1/otlp/v1/logs"
        answer = platform.request("POST", path, body=json.dumps(body).encode(), headers=headers)
        assert answer.status == 200
        assert platform.wait_for_end() == -9
        (platform.data / "kill-at").unlink()
        platform.start()
        platform.wait_until_consumed()
        assert platform.query(_LARGE_STORED) == [{"rows": _LARGE_RECORDS, "records": _LARGE_RECORDS}]
        log = platform.log.read_text()
        assert "finishing the open plan" in log
    finally:
        platform.kill()
