"""One HTTP request with the standard library, without redirects, so that credentials are sent only to the given
address."""

from __future__ import annotations

import email.utils
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_LONGEST_BODY = 64 * 1024
_LONGEST_RETRY_AFTER = 300.0


@dataclass(frozen=True)
class Response:
    """Status, the beginning of the body (64 KiB), and the seconds of `Retry-After` if there are any, at most 300."""

    status: int
    body: bytes = b""
    retry_after: float | None = None

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class Unreachable(Exception):
    """There is no response: no connection, a time-out, or no HTTP. The text contains no credential."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def post(url: str, body: bytes, headers: Mapping[str, str], seconds: float) -> Response:
    """Send a POST request, and return the response with any status. Raises `Unreachable`.

    `seconds` is the time limit for a connection, for each part of the response, and for the whole body: a body that
    arrives slowly is cut off, since its status is known.
    """
    try:
        request = urllib.request.Request(url, data=body, headers=dict(headers), method="POST")
        # An opener for each request: no connection or lock is shared with a forked process.
        opener = urllib.request.build_opener(_NoRedirects)
        with opener.open(request, timeout=seconds) as answer:
            return Response(answer.status, _read_body(answer, seconds))
    except urllib.error.HTTPError as error:
        with error:
            content = _read_body(error.fp, seconds)
            return Response(error.code, content, parse_retry_after(error.headers.get("Retry-After")))
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise Unreachable(" ".join(str(reason).split()) or type(error).__name__) from None
    except http.client.InvalidURL:
        # Its own message contains the URL, and a ping URL is a credential.
        raise Unreachable("the address has characters that cannot be sent") from None
    except (http.client.HTTPException, ValueError) as error:
        raise Unreachable(f"no valid HTTP ({type(error).__name__})") from None


def _read_body(answer: Any, seconds: float) -> bytes:
    """Return the beginning of the body, as far as it arrives within these seconds."""
    ends = time.monotonic() + seconds
    content = b""
    try:
        while len(content) < _LONGEST_BODY and time.monotonic() < ends:
            part: bytes = answer.read1(_LONGEST_BODY - len(content))
            if not part:
                break
            content += part
    except (OSError, http.client.HTTPException):
        pass
    return content


def parse_retry_after(text: str | None) -> float | None:
    """Return the seconds of a `Retry-After` header, which is a number or a date; None for other texts."""
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), _LONGEST_RETRY_AFTER)
    try:
        seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
    except (TypeError, ValueError):
        return None
    return min(max(seconds, 0.0), _LONGEST_RETRY_AFTER)
