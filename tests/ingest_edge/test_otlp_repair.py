"""The repair of a large OTLP body does not block other requests."""

import asyncio
import json
import threading
from typing import Any

import pytest

from ingest_edge.otlp import decode
from tests.ingest_edge.conftest import RunningEdge
from tests.otlp.requests import logs


async def test_other_requests_proceed_while_a_large_body_is_repaired(
    edge: RunningEdge, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, answered = threading.Event(), threading.Event()
    repair = decode.repair

    def wait_for_the_other(document: Any, type_: Any) -> None:
        begun.set()
        # On the event loop, the repair would block the other request.
        assert answered.wait(10)
        repair(document, type_)

    monkeypatch.setattr(decode, "repair", wait_for_the_other)
    body = logs({"timeUnixNano": "1", "body": {"intValue": 2**70}}, {"body": {"stringValue": "x" * 300_000}})
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {edge.key}"}
    large = asyncio.create_task(
        edge.request("POST", "/api/v1/otlp/v1/logs", data=json.dumps(body).encode(), headers=headers)
    )
    assert await asyncio.to_thread(begun.wait, 10)
    assert (await edge.post({"batch_id": "b", "events": [{"type": "log"}]})).status == 202
    answered.set()
    assert (await large).status == 200
