"""Requests to the management API."""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlencode

from operator_cli.api.event_stream import Event, read_events
from operator_cli.api.http_connection import RESPONSE_SECONDS, Connection, ConnectionFailed, Response
from operator_cli.api.problems import ApiRefused, refusal
from operator_cli.api.target import Target, find_target
from operator_cli.errors import CommandFailed, InstallationUnreachable, UsageError
from operator_cli.messages import OutageNotice
from operator_cli.terminal_text import sanitize

QueryValue = str | int | float | bool | None | Sequence[str]
Query = Mapping[str, QueryValue]
Segment = str | int

_PAGE_ROWS: Final = 100
_MAX_RETRIES: Final = 3
_MAX_RETRY_SECONDS: Final = 15.0
_RETRY_LATER: Final = frozenset({429, 503})
# The server sends a comment every 15 s.
_STREAM_SILENCE_SECONDS: Final = 45.0
_MAX_RECONNECT_SECONDS: Final = 5.0
# A repeated DELETE gets 404, and a repeated PATCH with an ETag 412, which do not show whether the first one succeeded.
_REPEATABLE: Final = frozenset({"GET", "PUT", "POST"})


def open_api(arguments: argparse.Namespace) -> "Api":
    """Return the API that the arguments of a command name (`find_target` documents the order).

    Opens no connection yet. Raises `CommandFailed`.
    """
    return Api(find_target(arguments), is_quiet=getattr(arguments, "quiet", False))


class Api:
    """The management API of one installation.

    `path` arguments are the segments below `/v1`, each quoted: `api.get("environments", environment.id, "variables")`.
    Query values that are None are left out. All methods raise `CommandFailed`: `ApiRefused` if the installation
    refuses the request, `InstallationUnreachable` if it does not respond.
    """

    def __init__(self, target: Target, *, seconds: float = RESPONSE_SECONDS, is_quiet: bool = False) -> None:
        """`seconds` is the time limit of a response; `is_quiet` is the `--quiet` of the command."""
        self.target = target
        self.is_quiet = is_quiet
        self._connection = Connection(target.base_url, seconds)
        self._lists: dict[tuple[Segment, ...], list[dict[str, Any]]] = {}

    def __enter__(self) -> "Api":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, which the end of the process does as well; a later request opens another."""
        self._connection.close()

    def get(self, *path: Segment, query: Query | None = None) -> Any:
        """Return the `data` of an object."""
        return self.request("GET", *path, query=query).data

    def get_all(
        self, *path: Segment, query: Query | None = None, limit: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the `data` of all pages of a list, or its first `limit` rows."""
        rows: list[dict[str, Any]] = []
        cursor = None
        while limit is None or len(rows) < limit:
            count = _PAGE_ROWS if limit is None else min(_PAGE_ROWS, limit - len(rows))
            response = self.request("GET", *path, query={**(query or {}), "limit": count, "cursor": cursor})
            if not isinstance(response.data, list):
                raise self._not_pharos(response.status)
            rows += response.data
            cursor = response.document.get("next_cursor")
            if cursor is None:
                break
        return rows

    def read_clock(self) -> datetime:
        """Return the time of the installation, or of this machine if the response has none."""
        # Imported here: it is slow, and few commands need it.
        from email.utils import parsedate_to_datetime

        try:
            return parsedate_to_datetime(self.request("GET", "account").headers["date"])
        except (LookupError, ValueError):
            return datetime.now(UTC)

    def list_once(self, *path: Segment) -> list[dict[str, Any]]:
        """Return all rows of a list, to find names in it. Each client reads the list once."""
        if path not in self._lists:
            self._lists[path] = self.get_all(*path)
        return self._lists[path]

    def post(self, *path: Segment, body: Mapping[str, Any] | None = None) -> Any:
        """Return the `data` of the response to a POST. It takes effect once: with a token, the request is repeated
        after the connection broke, and the installation recognizes the repetition by its idempotency key."""
        return self.request("POST", *path, body=body).data

    def put(self, *path: Segment, body: Mapping[str, Any] | None = None) -> Any:
        """Return the `data` of the response to a PUT."""
        return self.request("PUT", *path, body=body).data

    def patch(self, *path: Segment, body: Mapping[str, Any], etag: str | None = None) -> Any:
        """Return the `data` of the response to a PATCH. With the `etag` of an earlier response, the object is changed
        only if it has not changed since then."""
        return self.request("PATCH", *path, body=body, headers={"If-Match": etag} if etag else None).data

    def delete(
        self, *path: Segment, query: Query | None = None, body: Mapping[str, Any] | None = None
    ) -> Any:
        """Return the `data` of the response to a DELETE; None if it has no body."""
        return self.request("DELETE", *path, query=query, body=body).data

    def request(
        self,
        method: str,
        *path: Segment,
        query: Query | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Return a successful response with its headers. Reads wait and try again if the installation is busy."""
        target = _make_target(path, query)
        content = None if body is None else json.dumps(body).encode()
        all_headers = {**self._headers(method, content), **(headers or {})}
        retries = _MAX_RETRIES if method == "GET" else 0
        while True:
            response = self._send(method, target, all_headers, content)
            if response.status in _RETRY_LATER and retries and (wait := _retry_after(response)) is not None:
                retries -= 1
                time.sleep(wait)
                continue
            if 200 <= response.status < 300:
                return self._check_is_pharos(response)
            raise refusal(self.target, response)

    def stream(
        self,
        *path: Segment,
        query: Query | None = None,
        ends_after: Callable[[Event], bool] = lambda event: False,
    ) -> Generator[Event]:
        """Yield the events of an event stream, across broken connections and restarts of the installation.

        The stream ends when the server ends it after an event for which `ends_after` is true; without `ends_after` it
        continues until the caller stops. Reports outages on standard error. Raises `CommandFailed` if the first
        connection fails, or a later one is refused.
        """
        target = _make_target(path, query)
        notice, failures = OutageNotice(), 0
        last_id: str | None = None
        has_begun = has_final_event = False
        while True:
            try:
                with self._open_stream(target, last_id) as events:
                    has_begun = True
                    for event in events:
                        notice.end()
                        failures = 0
                        last_id = event.id or last_id
                        has_final_event = has_final_event or ends_after(event)
                        yield event
                if has_final_event:
                    return
            except (InstallationUnreachable, ApiRefused) as error:
                is_transient = (
                    isinstance(error, InstallationUnreachable) or error.status == HTTPStatus.TOO_MANY_REQUESTS
                )
                if not (has_begun and is_transient):
                    raise
                notice.report(error)
            # Also wait after a stream that ended normally: a server that ends every stream would otherwise cause a
            # busy loop.
            failures += 1
            time.sleep(min(0.2 * 2**failures, _MAX_RECONNECT_SECONDS))

    @contextmanager
    def _open_stream(self, target: str, last_id: str | None) -> Iterator[Iterator[Event]]:
        """Yield the events of one connection. Raises `CommandFailed`."""
        headers = {**self._headers("GET", None), "Accept": "text/event-stream"}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        connection = Connection(self.target.base_url, _STREAM_SILENCE_SECONDS)
        try:
            raw = connection.send("GET", target, headers, None)
            if raw.status != 200:
                raise refusal(self.target, connection.read(raw))
            if raw.headers.get_content_type() != "text/event-stream":
                raise CommandFailed(
                    f"{self.target.base_url} sends no live output. Check the URL of the installation."
                )
            yield read_events(raw)
        except ConnectionFailed as error:
            if error.was_sent and isinstance(error.cause, TimeoutError):
                raise InstallationUnreachable(
                    f"{self.target.base_url.removesuffix('/api')} sent nothing for {_STREAM_SILENCE_SECONDS:g} s. A "
                    "proxy in front of it may hold back event streams."
                ) from None
            raise self._unreachable("GET", error) from None
        finally:
            connection.close()

    def _send(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        """Send a request. Repeat it once if the connection broke and a repetition is harmless."""
        # The installation stores the response to a POST by its idempotency key and token.
        may_repeat = method in _REPEATABLE and (method != "POST" or self.target.token is not None)
        if not may_repeat:
            # The server may have been closing the kept connection.
            self._connection.close()
        while True:
            try:
                return self._connection.request(method, target, headers, body)
            except ConnectionFailed as error:
                if not (may_repeat and error.is_broken):
                    raise self._unreachable(method, error) from None
                may_repeat = False

    def _headers(self, method: str, body: bytes | None) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": "pharos-cli"}
        if self.target.token is not None:
            headers["Authorization"] = f"Bearer {self.target.token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        if method == "POST":
            # A repeated request gets the first response. The key is as unique as a UUID, without that import.
            headers["Idempotency-Key"] = os.urandom(16).hex()
        return headers

    def _check_is_pharos(self, response: Response) -> Response:
        """Return the response, with its `warning` on standard error.

        Raises `CommandFailed` if its body is not a document of this API.
        """
        if isinstance(response.document, dict) and "data" in response.document:
            if "warning" in response.document:
                print(f"pharos: {sanitize(str(response.document['warning']))}", file=sys.stderr)
            return response
        if response.status == HTTPStatus.NO_CONTENT:
            return response
        raise self._not_pharos(response.status)

    def _not_pharos(self, status: int) -> CommandFailed:
        return CommandFailed(
            f"{self.target.base_url} answered {status}, but not as Pharos does. Check the URL of the installation."
        )

    def _unreachable(self, method: str, error: ConnectionFailed) -> InstallationUnreachable:
        message = describe_failure(self.target, method, error)
        return InstallationUnreachable(message, may_have_effect=error.was_sent and method != "GET")


def describe_failure(target: Target, method: str, error: ConnectionFailed) -> str:
    """Return why there was no response, and what to check."""
    url, cause = target.base_url.removesuffix("/api"), error.cause
    if error.proxy is not None:
        return f"{url} cannot be reached through the proxy {error.proxy} of HTTPS_PROXY ({cause}). Check the proxy."
    if isinstance(cause, ConnectionRefusedError) and target.data is not None:
        return (
            f"Nothing runs on {target.data}. Go to the folder where Pharos started, name its data folder "
            f"with --data DIR, or start `pharos up --data {target.data}`."
        )
    if error.was_sent and isinstance(cause, ValueError):
        # Its text may contain the token.
        return f"The request to {url} cannot be sent by HTTP. Check the URL and {target.source}."
    if error.was_sent:
        advice = (
            "Try again."
            if method == "GET"
            else "It may have done what you asked: check before you repeat it."
        )
        what = (
            "took too long to answer"
            if isinstance(cause, TimeoutError)
            else f"ended the connection ({cause})"
        )
        return f"{url} {what}. {advice}"
    if isinstance(cause, ConnectionRefusedError):
        return f"Nothing listens at {url}. Check the URL, and whether Pharos runs there."
    if isinstance(cause, TimeoutError):
        return f"{url} does not answer. Check the URL, the network, and whether a firewall is in between."
    if reason := getattr(cause, "verify_message", None):
        file = os.environ.get("SSL_CERT_FILE")
        if file and not os.access(file, os.R_OK):
            return (
                f"The certificate of {url} is not trusted: SSL_CERT_FILE names {file}, which cannot be read."
            )
        return (
            f"The certificate of {url} is not trusted: {reason}. If your own authority has issued it, "
            "name the authority's file in SSL_CERT_FILE."
        )
    if getattr(cause, "reason", None) in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return f"The server at {url} does not speak TLS. If the network is trusted, use http:// in the URL."
    if type(cause).__name__ == "gaierror":
        return f"The host of {url} is not known. Check the URL and the network."
    return f"{url} cannot be reached ({getattr(cause, 'strerror', None) or cause}). Check the URL and the network."


def _make_target(path: Sequence[Segment], query: Query | None) -> str:
    """Return the path below the API root, with the query. Raises `UsageError`."""
    for segment in path:
        # Proxies would resolve these segments, and the request would reach another object.
        if segment in ("", ".", ".."):
            raise UsageError(f"{segment!r} is neither a name nor an ID.")
    target = "/v1/" + "/".join(quote(str(segment), safe="") for segment in path)
    pairs = [(name, _format(value)) for name, value in (query or {}).items() if value is not None]
    return f"{target}?{urlencode(pairs, doseq=True)}" if pairs else target


def _format(value: QueryValue) -> str | list[str]:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float) or value is None:
        return str(value)
    return list(value)


def _retry_after(response: Response) -> float | None:
    """Return the seconds to wait; None if the installation requests an unreasonably long wait."""
    text = response.headers.get("retry-after", "1")
    seconds = float(text) if text.isdecimal() else 1.0
    return seconds if seconds <= _MAX_RETRY_SECONDS else None
