"""Streams the log records of an environment as server-sent events, as they are stored.

An event `records` has up to 500 records, the oldest first. Once a second, each stream finds the positions of the
newest records, in the queue of reports, and reads and sends the records that it has not sent yet.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from analytics_queries.telemetry.logs import LogFilter, LogPlace, logs_between, newest_places
from analytics_queries.telemetry.time_range import TimeRange, to_nanoseconds
from control_api.limits.fair_queue import FairQueue
from control_api.limits.report_queue import run_in_queue
from control_api.live_logs.log_streams import LogStreams, OpenStream, Reader
from control_api.operations.reader_check import ReaderCheck
from control_domain.telemetry.describe_events import describe_log
from control_domain.telemetry.time_ranges import CLOCK_AHEAD
from pipeline_contracts.errors import StorageUnavailable, TooManyRequests, Unavailable
from storage_backends.column_store.interface import ColumnStore

_POLL_SECONDS = 1.0
# Records that arrive more than this after their own time are not streamed.
_LOOK_BACK = timedelta(minutes=2)
_MAX_RECORDS = 500
# Proxies close connections that are silent for long.
_KEEPALIVE_SECONDS = 15.0
_MAX_STREAM_SECONDS = 900.0
# A reader that does not read for this long is disconnected.
_SEND_TIMEOUT_SECONDS = 30.0

_Key = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class FollowedRecords:
    """The records that a stream follows."""

    environment_id: str
    """The public ID."""
    reader: Reader
    filters: LogFilter


def stream_records(
    request: Request, check: ReaderCheck, store: ColumnStore, followed: FollowedRecords
) -> Response:
    """Return a response with each record that is stored from now on; 503 if too many streams are open."""
    state = request.app.state
    return _RecordStreamResponse(state.log_streams, check, state.report_queue, store, followed)


class _RecordStreamResponse(Response):
    """Takes one of the streams of `LogStreams` before it sends the headers, and returns it however the response
    ends."""

    def __init__(
        self,
        streams: LogStreams,
        check: ReaderCheck,
        queue: FairQueue,
        store: ColumnStore,
        followed: FollowedRecords,
    ) -> None:
        super().__init__()
        self._streams = streams
        self._check = check
        self._queue = queue
        self._store = store
        self._followed = followed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # X-Accel-Buffering: nginx would buffer the events.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

        async def send_in_time(message: Message) -> None:
            # Without a timeout, a reader that stops reading without disconnecting would occupy a stream forever.
            async with asyncio.timeout(_SEND_TIMEOUT_SECONDS):
                await send(message)

        with self._streams.occupying("records", self._followed.reader) as stream:
            reader = RecordReader(self._queue, self._store, self._followed)
            async with aclosing(_events(reader, self._check, self._streams, stream)) as events:
                response = StreamingResponse(events, media_type="text/event-stream", headers=headers)
                # A reader may disconnect or stop reading at any time.
                with suppress(ConnectionError, TimeoutError, ClientDisconnect):
                    await response(scope, receive, send_in_time)


class RecordReader:
    """Reads the records for one stream. Each read returns only records that it has not returned before."""

    def __init__(self, queue: FairQueue, store: ColumnStore, followed: FollowedRecords) -> None:
        self._queue = queue
        self._store = store
        self._followed = followed
        self._known: Counter[LogPlace] | None = None
        """The number of newest records at each position at the last read; None before the first read."""
        self._returned: set[_Key] = set()
        """The newest records that were returned already."""

    async def read(self, now: datetime) -> Sequence[dict[str, Any]]:
        """Return the rows that were stored since the last call, the oldest first; the first call returns none.

        Raises `StorageUnavailable`, `TooManyRequests` and `Unavailable`.
        """
        return await run_in_queue(self._queue, self._followed.reader.account_id, lambda: self._read(now))

    async def _read(self, now: datetime) -> Sequence[dict[str, Any]]:
        within = TimeRange(to_nanoseconds(now - _LOOK_BACK), to_nanoseconds(now + CLOCK_AHEAD))
        environment, filters = self._followed.environment_id, self._followed.filters
        # Positions are small. The records themselves may be megabytes, most of which the stream has read before.
        found = Counter(await newest_places(self._store, environment, within, filters, _MAX_RECORDS))
        if self._known is None:
            self._known = found
            return []
        new = {place for place, number in found.items() if number > self._known[place]}
        rows = []
        if new:
            between = await logs_between(
                self._store, environment, min(new), max(new), filters, _MAX_RECORDS + len(found)
            )
            rows = [row for row in between if _place(row) in new and _key(row) not in self._returned]
        self._known = found
        self._returned = {key for key in self._returned if key[:3] in found} | {_key(row) for row in rows}
        return rows[::-1]


def _place(row: dict[str, Any]) -> LogPlace:
    return row["time_ns"], row["offset"], row["log_id"]


def _key(row: dict[str, Any]) -> _Key:
    return *_place(row), row["content"]


async def _events(
    reader: RecordReader, check: ReaderCheck, streams: LogStreams, stream: OpenStream
) -> AsyncGenerator[bytes]:
    loop = asyncio.get_running_loop()
    sent_at = loop.time()
    ends_at = sent_at + _MAX_STREAM_SECONDS
    yield b": following\n\n"
    while loop.time() < ends_at and not streams.is_stopping and await check.may_read():
        try:
            rows = await reader.read(datetime.now(UTC))
        except (TooManyRequests, Unavailable):
            # Other reports of the account use all slots. The next read finds the new records.
            rows = ()
        except StorageUnavailable:
            # When the reader reconnects, the response has the reason.
            return
        if rows:
            documents = [describe_log(row) for row in rows]
            yield b"event: records\ndata: %s\n\n" % orjson.dumps({"records": documents})
            sent_at = loop.time()
        elif loop.time() - sent_at >= _KEEPALIVE_SECONDS:
            yield b": nothing new\n\n"
            sent_at = loop.time()
        with suppress(TimeoutError):
            async with asyncio.timeout(_POLL_SECONDS):
                await stream.changed.wait()
