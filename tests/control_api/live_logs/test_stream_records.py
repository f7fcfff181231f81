"""The stream of records, on a reader of this test."""

from collections.abc import Sequence
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from control_api.live_logs import stream_records
from pipeline_contracts.errors import StorageUnavailable, TooManyRequests, Unavailable


async def test_a_read_without_a_turn_does_not_end_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dashboards of the account use all turns for a while. The next read returns the records of that time."""
    monkeypatch.setattr(stream_records, "_POLL_SECONDS", 0.0)
    monkeypatch.setattr(stream_records, "describe_log", lambda row: row)
    answers: list[Any] = [
        Unavailable("No turn within 10 s.", retry_after=5),
        TooManyRequests("16 reports wait."),
        [{"text": "new"}],
        StorageUnavailable("The column store is closed."),
    ]

    async def read(_now: datetime) -> Sequence[dict[str, Any]]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    async def may_read() -> bool:
        return True

    async def wait() -> None:
        return None

    reader: Any = SimpleNamespace(read=read)
    check: Any = SimpleNamespace(may_read=may_read)
    streams: Any = SimpleNamespace(is_stopping=False)
    stream: Any = SimpleNamespace(changed=SimpleNamespace(wait=wait))
    sent = [event async for event in stream_records._events(reader, check, streams, stream)]
    assert sent == [b": following\n\n", b'event: records\ndata: {"records":[{"text":"new"}]}\n\n']
    assert answers == []
