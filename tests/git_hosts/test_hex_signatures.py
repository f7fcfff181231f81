"""GitHub and Bitbucket: HMAC-SHA256 over the body, in hexadecimal digits."""

import hmac
from datetime import UTC, datetime
from typing import Any

import pytest

from git_hosts import signatures
from git_hosts.all_hosts import HOSTS
from git_hosts.webhook_events import WebhookSecret
from pipeline_contracts.errors import BadSignature

# Published: docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries.
_SECRET = WebhookSecret("hmac", "It's a Secret to Everybody")
_BODY = b"Hello, World!"
_DIGITS = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
_NOW = datetime(2026, 3, 3, tzinfo=UTC)
_HEADERS = {"github": "x-hub-signature-256", "bitbucket": "x-hub-signature"}

kinds = pytest.mark.parametrize("kind", _HEADERS)


def _verify(kind: str, *values: str, body: bytes = _BODY, secret: WebhookSecret = _SECRET) -> None:
    HOSTS[kind].webhooks.verify_signature(body, {_HEADERS[kind]: values}, secret, _NOW)


@kinds
def test_the_published_signature_is_valid(kind: str) -> None:
    _verify(kind, f"sha256={_DIGITS}")


@kinds
@pytest.mark.parametrize("position", [0, 31, 63])
def test_one_wrong_digit_is_refused(kind: str, position: int) -> None:
    other = "0" if _DIGITS[position] != "0" else "1"
    with pytest.raises(BadSignature):
        _verify(kind, f"sha256={_DIGITS[:position]}{other}{_DIGITS[position + 1 :]}")


@kinds
@pytest.mark.parametrize(
    "value",
    [
        "",
        _DIGITS,
        f"sha1={_DIGITS}",
        f"SHA256={_DIGITS}",
        f"sha256={_DIGITS.upper()}",
        f"sha256={_DIGITS[:-1]}",
        f"sha256={_DIGITS}0",
        f"sha256={_DIGITS}\n",
        f" sha256={_DIGITS}",
        f"sha256= {_DIGITS}",
        f"sha256={_DIGITS},sha256={_DIGITS}",
        f"sha256={_DIGITS}, sha256={_DIGITS}",
        f"sha256={_DIGITS}{_DIGITS}",
        "sha256=" + "é" * 64,
        "sha256=" + "\N{FULLWIDTH DIGIT ZERO}" * 64,
        "sha256=" + "\ud800" * 64,
        "sha256=" + "0" * 1_000_000,
    ],
)
def test_a_malformed_signature_is_refused(kind: str, value: str) -> None:
    with pytest.raises(BadSignature):
        _verify(kind, value)


@kinds
def test_a_missing_signature_is_refused_with_advice(kind: str) -> None:
    with pytest.raises(BadSignature, match="is missing.*secret"):
        _verify(kind)


@kinds
def test_a_repeated_signature_header_is_refused(kind: str) -> None:
    with pytest.raises(BadSignature, match="2 times"):
        _verify(kind, f"sha256={_DIGITS}", f"sha256={_DIGITS}")


@kinds
def test_the_signature_covers_exactly_the_raw_bytes(kind: str) -> None:
    body = b'\xff\x00 {"a" :1}\r\n'
    digits = hmac.new(_SECRET.value.encode(), body, "sha256").hexdigest()
    _verify(kind, f"sha256={digits}", body=body)
    with pytest.raises(BadSignature):
        _verify(kind, f"sha256={digits}", body=body.strip())


@kinds
def test_a_wrong_secret_is_refused(kind: str) -> None:
    with pytest.raises(BadSignature):
        _verify(kind, f"sha256={_DIGITS}", secret=WebhookSecret("hmac", "It's a secret to everybody"))


def test_the_sha1_header_of_github_is_ignored() -> None:
    digits = hmac.new(_SECRET.value.encode(), _BODY, "sha1").hexdigest()
    headers = {"x-hub-signature": [f"sha1={digits}"]}
    with pytest.raises(BadSignature):
        HOSTS["github"].webhooks.verify_signature(_BODY, headers, _SECRET, _NOW)


@kinds
def test_no_error_repeats_a_signature_or_the_secret(kind: str) -> None:
    wrong = _DIGITS[::-1]
    for value in (f"sha256={wrong}", f"sha256={wrong.upper()}", wrong):
        with pytest.raises(BadSignature) as caught:
            _verify(kind, value)
        told = caught.value.detail.lower()
        assert not any(part in told for part in (wrong, _DIGITS, _SECRET.value.lower()))


@kinds
def test_signatures_are_compared_in_constant_time(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[Any, Any]] = []

    def watch(wanted: Any, given: Any) -> bool:
        compared.append((wanted, given))
        return False

    monkeypatch.setattr(signatures.hmac, "compare_digest", watch)
    with pytest.raises(BadSignature):
        _verify(kind, f"sha256={_DIGITS}")
    assert compared == [(_DIGITS, _DIGITS)]
