"""The event and the ID of a delivery, and the headers with the encoding of its body."""

import json
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from git_hosts.all_hosts import HOSTS
from git_hosts.payloads.request import read_json
from git_hosts.webhook_events import Ping, Push
from pipeline_contracts.errors import PayloadNotUsable
from tests.git_hosts.payloads import EVENTS, load, refused_field

_EVENT_HEADERS = {"github": "X-GitHub-Event", "gitlab": "X-Gitlab-Event", "bitbucket": "X-Event-Key"}
_DELIVERY_HEADERS = {"github": "X-GitHub-Delivery", "gitlab": "webhook-id", "bitbucket": "X-Request-UUID"}
_PUSHES = ("github-push", "gitlab-push", "bitbucket-push")
_FORM = {"content-type": ["application/x-www-form-urlencoded"]}

kinds = pytest.mark.parametrize("kind", HOSTS)
pushes = pytest.mark.parametrize("name", _PUSHES)


def _refused(kind: str, method: str, headers: dict[str, list[str]]) -> str:
    with pytest.raises(PayloadNotUsable) as caught:
        getattr(HOSTS[kind].webhooks, method)(headers)
    (error,) = caught.value.errors
    return error.field


@kinds
def test_the_event_is_read_from_the_header_of_the_host(kind: str) -> None:
    assert (
        HOSTS[kind].webhooks.read_event_name({_EVENT_HEADERS[kind].lower(): ["pull_request"]})
        == "pull_request"
    )


@kinds
@pytest.mark.parametrize("values", [[], [""], ["push", "push"], ["a" * 101], ["pu\nsh"], ["é"], ["\0"]])
def test_an_invalid_event_header_is_refused(kind: str, values: list[str]) -> None:
    name = _EVENT_HEADERS[kind]
    assert _refused(kind, "read_event_name", {name.lower(): values}) == name


@kinds
def test_the_delivery_id_is_read_from_the_header_of_the_host(kind: str) -> None:
    assert HOSTS[kind].webhooks.read_delivery_id({_DELIVERY_HEADERS[kind].lower(): ["a" * 255]}) == "a" * 255
    assert HOSTS[kind].webhooks.read_delivery_id({}) is None


@kinds
@pytest.mark.parametrize("values", [[""], ["a", "a"], ["a" * 256], ["a\n"], ["é"], ["\0"], ["\ud800"]])
def test_an_invalid_delivery_header_is_refused(kind: str, values: list[str]) -> None:
    name = _DELIVERY_HEADERS[kind]
    assert _refused(kind, "read_delivery_id", {name.lower(): values}) == name


def test_gitlab_s_signed_delivery_id_comes_first() -> None:
    headers = {"x-gitlab-event-uuid": ["third"]}
    assert HOSTS["gitlab"].webhooks.read_delivery_id(headers) == "third"
    headers["idempotency-key"] = ["second"]
    assert HOSTS["gitlab"].webhooks.read_delivery_id(headers) == "second"
    headers["webhook-id"] = ["first"]
    assert HOSTS["gitlab"].webhooks.read_delivery_id(headers) == "first"


@pushes
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": ["application/json"]},
        {"content-type": ["application/json; charset=utf-8"]},
        {"content-type": ["Application/JSON ;charset=UTF-8"], "content-encoding": ["identity"]},
    ],
)
def test_json_is_accepted(name: str, headers: dict[str, list[str]]) -> None:
    kind, event = EVENTS[name]
    assert isinstance(HOSTS[kind].webhooks.parse_event(event, json.dumps(load(name)).encode(), headers), Push)


@pushes
@pytest.mark.parametrize(
    ("headers", "field"),
    [
        ({"content-type": ["text/plain"]}, "Content-Type"),
        ({"content-type": [""]}, "Content-Type"),
        ({"content-type": ["application/json", "application/json"]}, "Content-Type"),
        ({"content-type": ["application/json, text/plain"]}, "Content-Type"),
        ({"content-type": ["multipart/form-data"]}, "Content-Type"),
        ({"content-encoding": ["gzip"]}, "Content-Encoding"),
        ({"content-encoding": ["identity, gzip"]}, "Content-Encoding"),
        ({"content-encoding": ["identity", "identity"]}, "Content-Encoding"),
    ],
)
def test_other_encodings_and_types_are_refused(name: str, headers: dict[str, list[str]], field: str) -> None:
    kind, event = EVENTS[name]
    assert refused_field(kind, event, json.dumps(load(name)).encode(), headers) == field


def test_a_form_of_github_is_accepted() -> None:
    document = {**load("github-push"), "pusher": {"name": "Zoë & co+"}}
    raw = urlencode({"payload": json.dumps(document, ensure_ascii=False)}).encode()
    notice = HOSTS["github"].webhooks.parse_event("push", raw, _FORM)
    assert isinstance(notice, Push) and notice.sender == "Zoë & co+"
    as_json = HOSTS["github"].webhooks.parse_event("push", json.dumps(document).encode(), {})
    assert notice == as_json


@given(
    text=st.text(),
    others=st.dictionaries(st.text().filter(lambda name: name != "payload"), st.text(), max_size=9),
)
def test_forms_are_decoded_as_browsers_encode_them(text: str, others: dict[str, str]) -> None:
    raw = urlencode({**others, "payload": text}).encode()
    assert read_json(raw, _FORM, may_be_form=True).decode() == text


def test_forms_decode_only_percent_and_plus_signs() -> None:
    raw = b"p%61yload=a=41=\nb=\r\n+%2B%3d%25&="
    assert read_json(raw, _FORM, may_be_form=True) == b"a=41=\nb=\r\n +=%"


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (b"", "payload"),
        (b"payload", "body"),
        (b"payload=", "body"),
        (b"payload={}&payload={}", "payload"),
        (b"other={}", "payload"),
        (b"payload=%7B%ff%7D", "body"),
        (b"payload=\xff", "body"),
        (b"payload=%ED%A0%80", "body"),
        (b"&".join([b"payload={}"] + [b"a=1"] * 16), "body"),
        (b"payload=%7B}%", "body"),
        (b"payload=%7B}%a", "body"),
        (b"payload=%0g%7B}", "body"),
        (b"payload={}", "ref"),
        (b"payload=" + quote('{"ref": "a\\ud800"}').encode(), "body"),
    ],
)
def test_a_form_without_a_payload_is_refused(raw: bytes, field: str) -> None:
    assert refused_field("github", "push", raw, _FORM) == field


@pytest.mark.parametrize("name", ["gitlab-push", "bitbucket-push"])
def test_forms_are_refused_from_other_hosts(name: str) -> None:
    raw = urlencode({"payload": json.dumps(load(name))}).encode()
    assert refused_field(*EVENTS[name], raw, _FORM) == "Content-Type"


@pytest.mark.parametrize(("kind", "event"), [("github", "ping"), ("bitbucket", "diagnostics:ping")])
def test_a_ping_is_accepted_with_any_body(kind: str, event: str) -> None:
    assert HOSTS[kind].webhooks.parse_event(event, b"\xff", {"content-type": ["text/plain"]}) == Ping()
