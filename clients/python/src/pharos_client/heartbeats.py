"""Report runs of scheduled jobs to their heartbeat."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import queue
import random
import threading
import time
import uuid
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Callable, TypeVar, cast
from urllib.parse import urlencode, urlsplit, urlunsplit

from pharos_client.diagnostics import start_thread, warn
from pharos_client.exceptions import format_traceback
from pharos_client.http_post import Unreachable, post
from pharos_client.settings import URL_VARIABLE, split_url

Function = TypeVar("Function", bound=Callable[..., Any])

# The platform keeps the first 10 KiB of a run's output.
_LONGEST_OUTPUT = 10 * 1024
_REQUEST_SECONDS = 5.0
# Counted from the end of the job.
_GIVE_UP_SECONDS = 10.0
_FIRST_PAUSE = 0.3
_LONGEST_PAUSE = 5.0

# The runs of this thread or task, the innermost last.
_entered: ContextVar[tuple[Run, ...]] = ContextVar("pharos_client_runs", default=())


def heartbeat(target: str, *, base_url: str | None = None) -> Heartbeat:
    """Return a decorator and context manager that reports each run: its start, its end, and the traceback if it fails.

    `target`: a ping URL, or a ping key of the platform at `base_url` (PHAROS_URL by default). A ping that fails is
    retried for 10 s after the end of the job, then logged; it never affects the job. Raises `ValueError` if `target` is
    no http address, or a key without an address of the platform.
    """
    return Heartbeat(target, base_url=base_url)


class Heartbeat:
    """Reports runs; one object may be used by several threads and tasks at the same time."""

    def __init__(self, target: str, *, base_url: str | None = None) -> None:
        self._url = find_ping_url(target, base_url)
        self._open: list[Run] = []

    def __call__(self, function: Function) -> Function:
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def run_async(*arguments: Any, **named: Any) -> Any:
                async with self:
                    return await function(*arguments, **named)

            return cast(Function, run_async)

        @functools.wraps(function)
        def run(*arguments: Any, **named: Any) -> Any:
            with self:
                return function(*arguments, **named)

        return cast(Function, run)

    def __enter__(self) -> Run:
        run = Run(self._url)
        self._open.append(run)
        _entered.set((*_entered.get(), run))
        return run

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(error).wait()

    async def __aenter__(self) -> Run:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        run = self._end(error)
        await asyncio.get_running_loop().run_in_executor(None, run.wait)

    def _end(self, error: BaseException | None) -> Run:
        entered = _entered.get()
        own = [run for run in entered if run in self._open]
        # A generator may leave the block in another context than the one in which it entered.
        run = (own or self._open)[-1]
        self._open.remove(run)
        _entered.set(tuple(other for other in entered if other is not run))
        run.finish(error)
        return run


class Run:
    """One run. `output` is text that the platform keeps with the result, at most 10 KiB; its end is the most useful."""

    def __init__(self, url: str) -> None:
        self.output = ""
        self.id = str(uuid.uuid4())
        self._url = url
        self._pings: queue.SimpleQueue[tuple[str, bytes] | None] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._deadline = float("inf")
        self._pings.put(("start", b""))
        # The job starts immediately; pings are sent concurrently.
        self._thread = start_thread("pharos-heartbeat", self._send_all)

    def finish(self, error: BaseException | None) -> None:
        """Queue the result. An exit with the status 0 or without one is a success."""
        status = error.code if isinstance(error, SystemExit) else None
        is_success = error is None or (isinstance(error, SystemExit) and status in (None, 0))
        texts = [self.output] if self.output else []
        if error is not None and not is_success:
            texts.append(format_traceback(error))
        suffix = "" if is_success else "fail"
        if isinstance(status, int) and 1 <= status <= 255:
            suffix = str(status)
        self._deadline = time.monotonic() + _GIVE_UP_SECONDS
        self._pings.put((suffix, "\n".join(texts).encode("utf-8", "replace")[-_LONGEST_OUTPUT:]))
        self._pings.put(None)
        self._ended.set()

    def wait(self) -> None:
        """Wait until the result is sent, at most 10 s and the time of one request."""
        if self._thread is not None:
            self._thread.join(_GIVE_UP_SECONDS + _REQUEST_SECONDS)

    def _send_all(self) -> None:
        while (ping := self._pings.get()) is not None:
            try:
                reason = self._send(*ping)
            except Exception as error:  # The result must still be sent.
                reason = type(error).__name__
            if reason is not None:
                host = urlsplit(self._url).hostname
                warn(f"ping {ping[0]}", f"{ping[0] or 'success'} was not reported to {host}: {reason}.")

    def _send(self, suffix: str, body: bytes) -> str | None:
        """Retry until the ping is accepted, refused or too late. Return the last reason."""
        url = add_to_ping_url(self._url, suffix, self.id)
        pause = _FIRST_PAUSE
        while True:
            try:
                left = max(0.5, self._deadline - time.monotonic())
                response = post(url, body, {"Content-Type": "text/plain"}, min(_REQUEST_SECONDS, left))
                if response.is_success:
                    return None
                reason = f"the response was {response.status}"
                if response.status < 500 and response.status not in (408, 429):
                    return reason
                pause = max(pause, min(response.retry_after or 0.0, _LONGEST_PAUSE))
            except Unreachable as error:
                reason = str(error)
            # The result matters more than the start: it gets the remaining time.
            if suffix == "start" and self._ended.is_set():
                return reason
            if time.monotonic() + pause > self._deadline:
                return reason
            wait = pause * random.uniform(0.7, 1.0)
            if suffix == "start":
                self._ended.wait(wait)
            else:
                time.sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE)


def find_ping_url(target: str, base_url: str | None = None) -> str:
    """Return the ping URL of a URL or of a key. Raises `ValueError`; its message contains neither."""
    target = target.strip()
    if "://" in target:
        parts = urlsplit(target)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("A ping URL begins with http:// or https://.")
        return target
    host = split_url(base_url or os.environ.get(URL_VARIABLE, ""))[0]
    if not target or not host:
        raise ValueError(f"Pass a ping URL, or a ping key together with base_url or {URL_VARIABLE}.")
    return f"{host}/ping/{target}"


def add_to_ping_url(url: str, suffix: str, run_id: str) -> str:
    """Return the URL with the suffix at the end of its path and the run in its query. Other parameters of the query
    stay."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/") + (f"/{suffix}" if suffix else "")
    query = "&".join(text for text in (parts.query, urlencode({"rid": run_id})) if text)
    return urlunsplit((parts.scheme, parts.netloc, path, query, ""))
