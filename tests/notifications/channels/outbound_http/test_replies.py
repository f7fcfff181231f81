"""The meaning of receivers' responses."""

import datetime as dt

import pytest
from multidict import CIMultiDict

from notifications.channels.interface import DeliveryFailed
from notifications.channels.outbound_http.client import Reply
from notifications.channels.outbound_http.replies import (
    MAX_EXCERPT,
    MAX_RETRY_AFTER,
    cap_retry_after,
    check_reply,
    read_retry_after,
)

_NOW = dt.datetime(2026, 11, 26, 3, 0, tzinfo=dt.UTC)


def _reply(status: int, body: str = "", **headers: str) -> Reply:
    named = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
    return Reply("example.org", status, named, body.encode(), _NOW)


def _classify(reply: Reply, *, retry_client_errors: bool = False) -> str:
    try:
        check_reply(reply, name="Slack", secrets=[], retry_client_errors=retry_client_errors)
    except DeliveryFailed as error:
        return "gone" if error.is_gone else "permanent" if error.is_permanent else "retry"
    return "sent"


_MEANINGS = {
    # A status, and its meaning for a service and for a webhook.
    200: ("sent", "sent"),
    202: ("sent", "sent"),
    204: ("sent", "sent"),
    301: ("permanent", "permanent"),
    302: ("permanent", "permanent"),
    304: ("permanent", "permanent"),
    307: ("permanent", "permanent"),
    400: ("permanent", "permanent"),
    401: ("permanent", "retry"),
    403: ("permanent", "retry"),
    404: ("permanent", "retry"),
    405: ("permanent", "retry"),
    408: ("retry", "retry"),
    410: ("gone", "gone"),
    413: ("permanent", "permanent"),
    415: ("permanent", "permanent"),
    422: ("permanent", "permanent"),
    425: ("retry", "retry"),
    429: ("retry", "retry"),
    500: ("retry", "retry"),
    502: ("retry", "retry"),
    503: ("retry", "retry"),
    504: ("retry", "retry"),
    599: ("retry", "retry"),
}


@pytest.mark.parametrize("status", _MEANINGS)
def test_status_decides_about_the_next_attempt(status: int) -> None:
    reply = _reply(status)
    assert (_classify(reply), _classify(reply, retry_client_errors=True)) == _MEANINGS[status]


def test_retry_after_is_read_in_both_forms() -> None:
    cases = {
        "120": 120.0,
        "1.5": 1.5,
        "0": 0.0,
        "Thu, 26 Nov 2026 03:02:00 GMT": 120.0,
        "Thu, 26 Nov 2026 02:00:00 GMT": -3600.0,
        "Thursday, 26-Nov-26 03:00:30 GMT": 30.0,
        "soon": None,
        "": None,
        "9" * 100: None,
    }
    for value, seconds in cases.items():
        assert read_retry_after(_reply(429, Retry_After=value).headers, _NOW) == seconds, value
    assert read_retry_after(_reply(429).headers, _NOW) is None


def test_retry_after_has_bounds() -> None:
    cases = {-5.0: 0.0, 86_400.0: MAX_RETRY_AFTER, 30.0: 30.0, float("inf"): None, float("nan"): None}
    for asked, kept in cases.items():
        assert cap_retry_after(asked) == kept
    with pytest.raises(DeliveryFailed) as caught:
        check_reply(_reply(503, Retry_After="90000"), name="Slack", secrets=[])
    assert caught.value.retry_after == MAX_RETRY_AFTER
    with pytest.raises(DeliveryFailed) as caught:
        check_reply(_reply(429, Retry_After="7"), name="Discord", secrets=[], retry_after=1.25)
    assert caught.value.retry_after == 1.25


def _error(reply: Reply, *secrets: str, hint: str = "") -> str:
    with pytest.raises(DeliveryFailed) as caught:
        check_reply(reply, name="Slack", secrets=secrets, hint=hint)
    return str(caught.value)


def test_errors_are_sentences() -> None:
    cases = {
        _error(
            _reply(404, "no_service"), hint="Set its URL."
        ): "Slack answered 404: no_service. Set its URL.",
        _error(_reply(503, " Try\n again \x00later! ")): "Slack answered 503: Try again later!",
        _error(_reply(500)): "Slack answered 500.",
        _error(_reply(500, "<h1>x</h1>", Content_Type="text/html; charset=utf-8")): "Slack answered 500.",
        _error(_reply(410)): "Slack answered 410. The receiver no longer exists.",
        _error(
            _reply(308)
        ): "Slack answered 308, a redirect, which channels do not follow. Set the URL that it leads to.",
    }
    for text, expected in cases.items():
        assert text == expected


def test_long_answer_is_cut() -> None:
    text = _error(_reply(400, "x" * 60_000))
    assert text == f"Slack answered 400: {'x' * (MAX_EXCERPT - 1)}…."


def test_errors_repeat_no_secret() -> None:
    url = "https://hooks.example/services/T0AAAAAA/secret-token?sig=another-secret&v=1"
    echo = f"Cannot POST /services/T0AAAAAA/secret-token (sig=another-secret, {url}) Bearer key-123456"
    text = _error(_reply(404, echo), url, "key-123456")
    for secret in ("secret-token", "another-secret", "T0AAAAAA", "key-123456"):
        assert secret not in text
