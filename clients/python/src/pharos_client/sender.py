"""A bounded buffer of events and the background thread that sends them in batches."""

from __future__ import annotations

import os
import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from multiprocessing import parent_process, util
from typing import Callable

from pharos_client.batches import Batch, make_batch, separate_refused, split_batch
from pharos_client.diagnostics import start_thread, warn
from pharos_client.http_post import Response, Unreachable, post
from pharos_client.settings import Settings

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
# Refused keys (401, 403) are retried as well: a new key takes seconds to reach the platform.
_RETRIED = frozenset({401, 403, 408, 425, 429})

_senders: weakref.WeakSet[BatchSender] = weakref.WeakSet()


class BatchSender:
    """Sends encoded events, each batch until it is accepted or permanently refused.

    `make_notice` returns the event that reports a number of dropped events, or None.
    """

    def __init__(self, settings: Settings, make_notice: Callable[[int], bytes | None]) -> None:
        self._settings = settings
        self._make_notice = make_notice
        self._url = f"{settings.api}/v1/ingest"
        self._headers = {
            "Authorization": f"Bearer {settings.key}",
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
            "User-Agent": "pharos-client-python/0.1.0",
        }
        self._reset()
        _senders.add(self)
        # Processes of multiprocessing end without atexit: those that are forked later, and this one.
        util.register_after_fork(self, _close_at_end_of_process)
        if parent_process() is not None:
            _close_at_end_of_process(self)

    def _reset(self) -> None:
        """Start empty. In a forked process, only the parent sends the parent's events."""
        # Re-entrant: the garbage collector may call a finalizer that logs while the lock is held.
        self._changed = threading.Condition(threading.RLock())
        self._events: deque[tuple[float, bytes]] = deque()
        self._waiting_bytes = 0
        self._buffered_events = 0
        self._buffered_bytes = 0
        self._added = 0
        self._finished = 0
        self._flush_to = 0
        self._dropped = 0
        self._unreported = 0
        self._closes_at: float | None = None
        self._thread: threading.Thread | None = None

    @property
    def dropped(self) -> int:
        """Events that were not sent: the buffer was full, the platform refused them, or the process ended."""
        return self._dropped

    @property
    def is_closed(self) -> bool:
        """True after `close`: nothing more is sent."""
        return self._closes_at is not None

    def add(self, event: bytes) -> bool:
        """Buffer an event. Return False if it is dropped because the buffer is full. Does not wait for the network.

        New events are dropped, not old ones: events from the beginning of an outage show its cause.
        """
        with self._changed:
            if (
                self._closes_at is not None
                or self._buffered_events >= self._settings.buffer_events
                or self._buffered_bytes + len(event) > self._settings.buffer_bytes
            ):
                self._dropped += 1
                self._unreported += 1
                return False
            self._append(event)
            if self._thread is None:
                self._thread = start_thread("pharos-client", self._run)
            elif len(self._events) == 1 or self._is_due():
                self._changed.notify_all()
        return True

    def flush(self, timeout: float) -> bool:
        """Wait until all events that are buffered now are sent or dropped, at most this many seconds.

        Return True if nothing is left.
        """
        deadline = time.monotonic() + timeout
        with self._changed:
            target = self._added
            self._flush_to = max(self._flush_to, target)
            self._changed.notify_all()
            if self._finished < target and (self._thread is None or not self._thread.is_alive()):
                self._thread = start_thread("pharos-client", self._run)
            while self._finished < target:
                left = deadline - time.monotonic()
                if left <= 0 or self._thread is None:
                    return False
                self._changed.wait(left)
        return True

    def close(self, timeout: float | None = None) -> bool:
        """Send the remaining events for at most this many seconds, then drop them and all later events. Return True if
        all were sent. The default is `shutdown_seconds`."""
        timeout = self._settings.shutdown_seconds if timeout is None else timeout
        with self._changed:
            if self._closes_at is None:
                self._closes_at = time.monotonic() + timeout
            dropped_before = self._dropped
        self.flush(timeout)
        with self._changed:
            self._dropped += self._added - self._finished
            lost = self._dropped - dropped_before
        if lost:
            warn("exit", f"{lost} events were not sent before the end of the process.")
        return not lost

    def _append(self, event: bytes) -> None:
        self._events.append((time.monotonic(), event))
        self._waiting_bytes += len(event)
        self._buffered_events += 1
        self._buffered_bytes += len(event)
        self._added += 1

    def _is_due(self) -> bool:
        settings = self._settings
        return (
            len(self._events) >= settings.batch_events
            or self._waiting_bytes >= settings.batch_bytes
            or self._closes_at is not None
            or self._flush_to > self._finished
            or (bool(self._events) and time.monotonic() >= self._events[0][0] + settings.batch_seconds)
        )

    def _run(self) -> None:
        while (batch := self._next_batch()) is not None:
            try:
                self._deliver(batch)
            except Exception as error:  # A mistake in this library must not end the thread.
                warn("bug", f"{len(batch.events)} events could not be sent: {type(error).__name__}: {error}")
                self._finish(batch.events, lost=True)

    def _next_batch(self) -> Batch | None:
        """Wait for a batch. Return None if the sender is closed and empty."""
        with self._changed:
            while not self._events or not self._is_due():
                if not self._events and self._closes_at is not None:
                    return None
                first = self._events[0][0] if self._events else None
                pause = None if first is None else first + self._settings.batch_seconds - time.monotonic()
                self._changed.wait(pause if pause is None else max(pause, 0.0))
            taken: list[bytes] = []
            size = 0
            while self._events and len(taken) < self._settings.batch_events:
                length = len(self._events[0][1])
                if taken and size + length > self._settings.batch_bytes:
                    break
                taken.append(self._events.popleft()[1])
                size += length
            self._waiting_bytes -= size
        return make_batch(taken)

    def _deliver(self, batch: Batch) -> None:
        """Send a batch until it is accepted, refused or too late."""
        pause = _FIRST_PAUSE
        while True:
            response, reason = self._post(batch)
            if response is not None and not _is_transient(response.status):
                self._handle(batch, response)
                return
            wait = pause * random.uniform(0.5, 1.0)
            if response is not None and response.retry_after is not None:
                wait = response.retry_after + random.uniform(0.0, 0.25)
            warn("retry", f"Events wait, and are sent again later: {reason}.")
            if not self._wait_to_retry(wait):
                self._finish(batch.events, lost=True)
                return
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _post(self, batch: Batch) -> tuple[Response | None, str]:
        seconds = self._settings.request_seconds
        if self._closes_at is not None:
            seconds = max(0.1, min(seconds, self._closes_at - time.monotonic()))
        try:
            response = post(self._url, batch.body, self._headers, seconds)
        except Unreachable as error:
            return None, str(error)
        if response.status in (401, 403):
            return response, f"the platform refused the ingest key ({response.status})"
        return response, f"the platform responded {response.status}"

    def _wait_to_retry(self, seconds: float) -> bool:
        """Wait. Return False if the sender is closed and its time is over. The start of the shutdown wakes it once."""
        with self._changed:
            was_closing = self._closes_at is not None
            until = time.monotonic() + seconds
            while (now := time.monotonic()) < until:
                if self._closes_at is not None:
                    if not was_closing:
                        return now < self._closes_at
                    if now >= self._closes_at:
                        return False
                    until = min(until, self._closes_at)
                self._changed.wait(until - now)
            return self._closes_at is None or time.monotonic() < self._closes_at

    def _handle(self, batch: Batch, response: Response) -> None:
        count = len(batch.events)
        if response.is_success:
            self._finish(batch.events)
        elif response.status == 413 and count > 1:
            for part in split_batch(batch):
                self._deliver(part)
        elif response.status == 422 and count > 1:
            kept, refused, reason = separate_refused(batch, response.body)
            warn("422", f"The platform refused {len(refused)} of {count} events. {reason}")
            self._finish(refused, lost=True)
            if kept:
                self._deliver(make_batch(kept))
        else:
            text = response.body[:300].decode("utf-8", "replace")
            warn(str(response.status), f"The platform refused {count} events ({response.status}). {text}")
            self._finish(batch.events, lost=True)

    def _finish(self, events: Sequence[bytes], lost: bool = False) -> None:
        """Free the memory of events that were accepted, or given up."""
        with self._changed:
            self._buffered_events -= len(events)
            self._buffered_bytes -= sum(map(len, events))
            self._finished += len(events)
            if lost:
                self._dropped += len(events)
                self._unreported += len(events)
            elif self._unreported and self._closes_at is None:
                # The platform is back: report once what is missing.
                notice = self._make_notice(self._unreported)
                self._unreported = 0
                if notice is not None:
                    self._append(notice)
            self._changed.notify_all()


def _is_transient(status: int) -> bool:
    return status in _RETRIED or status >= 500


def _close_at_end_of_process(sender: BatchSender) -> None:
    util.Finalize(sender, sender.close, exitpriority=10)


def _reset_in_child() -> None:
    for sender in list(_senders):
        sender._reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_child)
