"""Decides what the response of a receiver means: the message is delivered, must be sent again, or can never be
delivered."""

import datetime as dt
import email.utils
import math
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import urlsplit

from notifications.channels.interface import DeliveryFailed
from notifications.channels.outbound_http.client import Reply
from notifications.render.words import to_line

MAX_RETRY_AFTER = 3600.0
"""The longest wait that a receiver can ask for, in seconds."""
MAX_EXCERPT = 300
"""Maximum number of characters of a response that an error text quotes."""
_MIN_SECRET = 6
_RETRIED = frozenset({408, 425, 429})
# Statuses that refuse the content of a message. The content does not change, so a retry would only delay later
# messages.
_REFUSES_CONTENT = frozenset({400, 413, 415, 422})


def check_reply(
    reply: Reply,
    *,
    name: str,
    secrets: Iterable[str],
    retry_client_errors: bool = False,
    hint: str = "",
    retry_after: float | None = None,
) -> None:
    """Return if the receiver accepted the message (2xx), and raise `DeliveryFailed` otherwise.

    `name`: how error texts call the receiver. `hint`: advice for a permanent error. `retry_after`: the wait in seconds
    that the body of the response asks for. Error texts never contain values of `secrets`.

    Raises `DeliveryFailed`. 408, 425, 429 and 5xx are retried; 410 turns the channel off; all others are permanent.
    With `retry_client_errors`, other 4xx are retried too, except for 400, 413, 415 and 422.
    """
    status = reply.status
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise DeliveryFailed(
            f"{name} answered {status}, a redirect, which channels do not follow. Set the URL that it leads to.",
            is_permanent=True,
        )
    excerpt = read_excerpt(reply, secrets)
    text = f"{name} answered {status}" + (f": {excerpt}" if excerpt else "")
    text = text if text.endswith((".", "!", "?")) else f"{text}."
    if status == 410:
        raise DeliveryFailed(f"{text} The receiver no longer exists.", is_gone=True)
    if status in _RETRIED or status >= 500 or status < 200:
        wait = retry_after if retry_after is not None else read_retry_after(reply.headers, reply.received_at)
        raise DeliveryFailed(text, retry_after=cap_retry_after(wait))
    if retry_client_errors and status not in _REFUSES_CONTENT:
        raise DeliveryFailed(text)
    raise DeliveryFailed(f"{text} {hint}".rstrip(), is_permanent=True)


def read_retry_after(headers: Mapping[str, str], now: dt.datetime) -> float | None:
    """Return the seconds in the Retry-After header, which contains a number or an HTTP date. None if the header is
    missing or unreadable."""
    value = headers.get("Retry-After", "").strip()
    if not value or len(value) > 64:
        return None
    try:
        return float(value)
    except ValueError:
        pass
    try:
        at = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=dt.UTC)
    return (at - now).total_seconds()


def cap_retry_after(seconds: float | None) -> float | None:
    """Return the wait, limited to the range from 0 to an hour. None if the input is None or not a number."""
    if seconds is None or not math.isfinite(seconds):
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER)


def read_excerpt(reply: Reply, secrets: Iterable[str]) -> str:
    """Return the beginning of a text response in one line, without the secrets. Empty for HTML, which contains nothing
    useful."""
    if "html" in reply.headers.get("Content-Type", "").lower():
        return ""
    text = reply.body.decode(errors="replace")
    # Remove the longest words first, so that a secret that contains another secret is removed as a whole.
    for word in sorted(_list_secret_words(secrets), key=len, reverse=True):
        text = text.replace(word, "…")
    return to_line(text, MAX_EXCERPT)


def _list_secret_words(secrets: Iterable[str]) -> Iterator[str]:
    """Yield the words that must not be quoted: each secret, and for a URL its path and the parts of the path. Servers
    may respond `Cannot POST /services/T0/B0/token`."""
    for secret in secrets:
        words = {secret, *secret.split()}
        if "://" in secret:
            parts = urlsplit(secret)
            words |= {parts.path, parts.query, *parts.path.split("/"), *parts.query.split("&")}
        yield from (word for word in words if len(word) >= _MIN_SECRET)
