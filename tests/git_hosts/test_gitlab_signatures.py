"""GitLab: signatures of Standard Webhooks, or a plain token if no signing token is set."""

import hmac
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from git_hosts import signatures
from git_hosts.gitlab import webhooks as gitlab
from git_hosts.signatures import MAX_SIGNATURES
from git_hosts.webhook_events import WebhookSecret
from pipeline_contracts.errors import BadSignature

# Published: github.com/standard-webhooks/standard-webhooks.
_KEY = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
_SIGNING = WebhookSecret("signing", f"whsec_{_KEY}")
_BODY = b'{"test": 2432232314}'
_ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
_TIME = 1614265330
_GOOD = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
_WRONG = "v1,h0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
_NOW = datetime.fromtimestamp(_TIME, UTC)
_PLAIN = WebhookSecret("plain", "a token of GitLab's own")


def _headers(signature: str = _GOOD, **changed: list[str]) -> dict[str, list[str]]:
    headers = {"webhook-id": [_ID], "webhook-timestamp": [str(_TIME)], "webhook-signature": [signature]}
    return {**headers, **{name.replace("_", "-"): values for name, values in changed.items()}}


def _verify(headers: dict[str, list[str]], body: bytes = _BODY, now: datetime = _NOW) -> None:
    gitlab.verify_signature(body, headers, _SIGNING, now)


def _sign(message_id: str, moment: str, body: bytes = _BODY) -> dict[str, list[str]]:
    digest = hmac.new(b64decode(_KEY), f"{message_id}.{moment}.".encode() + body, "sha256").digest()
    signature = f"v1,{b64encode(digest).decode()}"
    return _headers(signature, webhook_id=[message_id], webhook_timestamp=[moment])


def test_the_published_signature_is_valid() -> None:
    _verify(_headers())


@pytest.mark.parametrize("seconds", [-300, -299.5, 0, 299.5, 300])
def test_messages_within_5_minutes_are_valid(seconds: float) -> None:
    _verify(_headers(), now=_NOW + timedelta(seconds=seconds))


@pytest.mark.parametrize("seconds", [-86400, -301, -300.001, 300.001, 301, 86400])
def test_messages_outside_5_minutes_are_refused(seconds: float) -> None:
    with pytest.raises(BadSignature, match="clock"):
        _verify(_headers(), now=_NOW + timedelta(seconds=seconds))


@pytest.mark.parametrize(
    "moment",
    [
        "",
        "-1614265330",
        "+1614265330",
        "1614265330.0",
        " 1614265330",
        "1614265330\n",
        "1_614_265_330",
        "1e9",
        "١٦١٤٢٦٥٣٣٠",
        "9" * 13,
        "9" * 5000,
        "\ud800",
    ],
)
def test_a_malformed_timestamp_is_refused(moment: str) -> None:
    headers = _sign(_ID, moment) if moment.isascii() else _headers(webhook_timestamp=[moment])
    with pytest.raises(BadSignature, match="webhook-timestamp"):
        _verify(headers)


@pytest.mark.parametrize("message_id", ["a", "f5e5f430-f57b-4e6e-9fac-d9128cd7232f", "~ !", "a" * 255])
def test_printable_ids_are_valid(message_id: str) -> None:
    _verify(_sign(message_id, str(_TIME)))


@pytest.mark.parametrize("message_id", ["", "a.b", ".", "a\n", "a\0", "é", "a" * 256])
def test_a_malformed_id_is_refused(message_id: str) -> None:
    with pytest.raises(BadSignature, match="webhook-id"):
        _verify(_sign(message_id, str(_TIME)))


@pytest.mark.parametrize(
    "signatures",
    [
        f"{_GOOD} {_WRONG}",
        f"{_WRONG} {_GOOD}",
        f"v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg== {_GOOD}",
        f"{_GOOD} v2,unknown",
        f"  {_GOOD} ",
        " ".join([_WRONG] * (MAX_SIGNATURES - 1) + [_GOOD]),
    ],
)
def test_one_valid_signature_of_several_suffices(signatures: str) -> None:
    _verify(_headers(signatures))


@pytest.mark.parametrize(
    "signatures",
    [
        "",
        " ",
        _WRONG,
        f"{_WRONG} {_WRONG}",
        _GOOD.removeprefix("v1,"),
        _GOOD.replace("v1", "v2"),
        _GOOD.replace("v1", "V1"),
        _GOOD.rstrip("="),
        _GOOD + "=",
        _GOOD + "\n",
        _GOOD.replace(",", ", "),
        f"{_GOOD},{_GOOD}",
        # Decodes to the same bytes: the last base64 digit has unused bits.
        _GOOD.replace("OE=", "OF="),
        "v1,é",
        "v1,\ud800",
        "v1,",
    ],
)
def test_without_a_valid_signature_it_is_refused(signatures: str) -> None:
    with pytest.raises(BadSignature):
        _verify(_headers(signatures))


def test_too_many_signatures_are_refused() -> None:
    with pytest.raises(BadSignature, match="more than 16"):
        _verify(_headers(" ".join([_GOOD] * (MAX_SIGNATURES + 1))))


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_each_header_is_required_exactly_once(name: str) -> None:
    headers = _headers()
    with pytest.raises(BadSignature, match=f"{name} is missing"):
        _verify({**headers, name: []})
    with pytest.raises(BadSignature, match=f"{name} was sent 2 times"):
        _verify({**headers, name: headers[name] * 2})


@pytest.mark.parametrize(
    "changed",
    [{"webhook_id": ["msg_p5jXN8AQM9LWM0D4loKWxJel"]}, {"webhook_timestamp": [str(_TIME + 1)]}],
)
def test_the_signature_covers_id_and_timestamp(changed: dict[str, list[str]]) -> None:
    with pytest.raises(BadSignature):
        _verify(_headers(**changed))


def test_the_signature_covers_the_raw_bytes() -> None:
    with pytest.raises(BadSignature):
        _verify(_headers(), _BODY + b"\n")


def test_all_signatures_are_compared_after_a_match(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[Any] = []
    really = hmac.compare_digest

    def watch(wanted: Any, given: Any) -> bool:
        compared.append(given)
        return really(wanted, given)

    monkeypatch.setattr(signatures.hmac, "compare_digest", watch)
    _verify(_headers(f"{_GOOD} {_WRONG} {_GOOD}"))
    assert compared == [_GOOD.encode(), _WRONG.encode(), _GOOD.encode()]


def test_a_plain_token_is_refused_if_a_signing_token_is_set() -> None:
    for token in (_SIGNING.value, _KEY):
        with pytest.raises(BadSignature, match="signing token"):
            _verify({"x-gitlab-token": [token]})
        with pytest.raises(BadSignature):
            _verify({**_headers(_WRONG), "x-gitlab-token": [token]})


@pytest.mark.parametrize("value", ["whsec_", "whsec_c2hvcnQ=", "whsec_no base64", _KEY, ""])
def test_a_malformed_signing_token_is_refused(value: str) -> None:
    key = b64decode(value.removeprefix("whsec_"), validate=False) if value != "whsec_no base64" else b""
    digest = hmac.new(key, f"{_ID}.{_TIME}.".encode() + _BODY, "sha256").digest()
    headers = _headers(f"v1,{b64encode(digest).decode()}")
    with pytest.raises(BadSignature, match="no signing token"):
        gitlab.verify_signature(_BODY, headers, WebhookSecret("signing", value), _NOW)


def test_a_plain_token_is_accepted_without_a_signing_token() -> None:
    gitlab.verify_signature(_BODY, {"x-gitlab-token": [_PLAIN.value]}, _PLAIN, _NOW)


@pytest.mark.parametrize(
    "values",
    [
        [],
        [""],
        [_PLAIN.value[:-1]],
        [_PLAIN.value + " "],
        [_PLAIN.value.upper()],
        [_PLAIN.value, _PLAIN.value],
        ["é"],
        ["\ud800"],
    ],
)
def test_a_wrong_plain_token_is_refused(values: list[str]) -> None:
    with pytest.raises(BadSignature, match="X-Gitlab-Token"):
        gitlab.verify_signature(_BODY, {"x-gitlab-token": values}, _PLAIN, _NOW)


def test_a_signature_does_not_replace_a_plain_token() -> None:
    with pytest.raises(BadSignature):
        gitlab.verify_signature(_BODY, _headers(), _PLAIN, _NOW)


def test_plain_tokens_of_any_length_are_compared_in_constant_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[tuple[Any, Any]] = []
    really = hmac.compare_digest

    def watch(wanted: Any, given: Any) -> bool:
        compared.append((wanted, given))
        return really(wanted, given)

    monkeypatch.setattr(gitlab.hmac, "compare_digest", watch)
    for token in ("", "short", _PLAIN.value * 100):
        with pytest.raises(BadSignature):
            gitlab.verify_signature(_BODY, {"x-gitlab-token": [token]}, _PLAIN, _NOW)
    assert [(len(wanted), len(given)) for wanted, given in compared] == [(32, 32)] * 3


def test_no_error_repeats_a_signature_or_a_token() -> None:
    headers = _headers(_WRONG)
    for secret in (_SIGNING, _PLAIN):
        with pytest.raises(BadSignature) as caught:
            gitlab.verify_signature(_BODY, {**headers, "x-gitlab-token": ["a wrong token"]}, secret, _NOW)
        told = caught.value.detail
        assert not any(part in told for part in (_WRONG[3:], _GOOD[3:], _KEY, "wrong token", _PLAIN.value))
