"""Bodies and query parameters of typed operations: accepted values, and the error messages. No server is needed."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import pytest
from fastapi import Request
from msgspec import UNSET, Meta, Struct, UnsetType

from control_api.operations.bodies import decode_body
from control_api.operations.queries import read_query
from control_api.operations.versions import check_if_match, make_etag
from pipeline_contracts.errors import InvalidInput, PreconditionFailed


class Kind(StrEnum):
    ON = "on"
    OFF = "off"


class Window(Struct):
    days: list[str]


class Settings(Struct, kw_only=True):
    """A body with one field of each kind."""

    name: Annotated[str, Meta(min_length=1, max_length=5)]
    replicas: Annotated[int, Meta(ge=1, le=20)] = 1
    share: float | None = None
    kind: Kind = Kind.ON
    branch: str | None | UnsetType = UNSET
    window: Window | None = None
    at: Annotated[datetime, Meta(tz=True)] | None = None
    tags: Annotated[list[str], Meta(max_length=2)] = []
    kinds: list[Kind] | None = None


class Filter(Struct, kw_only=True):
    """Query parameters of each kind."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 50
    is_open: bool | None = None
    kind: Kind | None = None
    since: Annotated[datetime, Meta(tz=True)] | None = None
    name: str | None = None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"name": "a"}', Settings(name="a")),
        # Unknown members are ignored, and null counts as absent.
        (b'{"name": "a", "color": 1, "replicas": null}', Settings(name="a")),
        # Null is a value where it has a meaning.
        (b'{"name": "a", "branch": null}', Settings(name="a", branch=None)),
        (b'{"name": "a", "window": {"days": ["mon"]}}', Settings(name="a", window=Window(["mon"]))),
        (
            b'{"name": "a", "at": "2026-11-26T03:10:00Z"}',
            Settings(name="a", at=datetime(2026, 11, 26, 3, 10, tzinfo=UTC)),
        ),
    ],
)
def test_valid_bodies(body: bytes, expected: Settings) -> None:
    assert decode_body(Settings, body) == expected


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        (b"{}", [("name", "is required; must be a string of 1 to 5 characters")]),
        (
            b'{"name": "", "replicas": 21, "share": "x", "kind": "maybe"}',
            [
                ("name", "must be a string of 1 to 5 characters"),
                ("replicas", "must be a whole number from 1 to 20"),
                ("share", "must be a number or null"),
                ("kind", "must be on or off"),
            ],
        ),
        (b'{"name": "a", "replicas": true}', [("replicas", "must be a whole number from 1 to 20")]),
        (b'{"name": "a", "window": {"days": [7]}}', [("window.days[0]", "expected `str`, got `int`")]),
        (
            b'{"name": "a", "tags": ["x", 7], "kinds": ["on", "maybe"]}',
            [("tags[1]", "must be a string"), ("kinds[1]", "must be on or off")],
        ),
        (b'{"name": "a", "window": {}}', [("window.days", "is required")]),
        (b'{"name": "a\\u0000"}', [("name", "must not contain the character NUL")]),
        (b'{"name": "a", "tags": ["x", "\\u0000"]}', [("tags", "must not contain the character NUL")]),
        (b'{"name": "a", "at": "yesterday"}', [("at", "must be a time like 2026-11-26T03:10:00Z or null")]),
        (b'{"name": "a", "replicas": 1e999}', [("replicas", "must be a whole number from 1 to 20")]),
        (b'{"name": "\xff"}', [("name", "must be a string of 1 to 5 characters")]),
    ],
)
def test_invalid_bodies(body: bytes, errors: list[tuple[str, str]]) -> None:
    with pytest.raises(InvalidInput) as refused:
        decode_body(Settings, body)
    assert [(error.field, error.message) for error in refused.value.errors] == errors


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b'"x"', b"{", b"\xff", b'{"a": ' + b"[" * 2000])
def test_bodies_that_are_no_object(body: bytes) -> None:
    with pytest.raises(InvalidInput) as refused:
        decode_body(Settings, body)
    assert refused.value.errors[0].field == ""


def _request(query: str = "", **headers: str) -> Request:
    sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "query_string": query.encode(), "headers": sent})


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", Filter()),
        (
            "limit=7&is_open=true&kind=off&name=null",
            Filter(limit=7, is_open=True, kind=Kind.OFF, name="null"),
        ),
        ("since=2026-11-26T03:10:00%2B01:00", Filter(since=datetime(2026, 11, 26, 2, 10, tzinfo=UTC))),
    ],
)
def test_valid_queries(query: str, expected: Filter) -> None:
    assert read_query(Filter, _request(query)) == expected


@pytest.mark.parametrize(
    ("query", "errors"),
    [
        (
            "limit=0&kind=maybe",
            {"limit": "must be a whole number from 1 to 100", "kind": "must be on or off"},
        ),
        ("limit=1&limit=1", {"limit": "must be given once"}),
        ("page=2&limit=5", {"page": "is not a parameter of this operation"}),
        ("is_open=perhaps", {"is_open": "must be true or false"}),
        ("is_open=null", {"is_open": "must be true or false"}),
        ("since=0.5", {"since": "must be a time like 2026-11-26T03:10:00Z"}),
        ("since=2026-11-26T03:10:00", {"since": "must be a time like 2026-11-26T03:10:00Z"}),
        ("name=a%00", {"name": "must not contain the character NUL"}),
    ],
)
def test_invalid_queries(query: str, errors: dict[str, str]) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_query(Filter, _request(query))
    assert {error.field: error.message for error in refused.value.errors} == errors


def test_if_match() -> None:
    settings: dict[str, Any] = {"name": "a", "window": None}
    etag = make_etag(settings)
    assert etag == make_etag({"window": None, "name": "a"}) != make_etag({"name": "b", "window": None})
    for header in (etag, f'"other", {etag}', "*", ""):
        check_if_match(_request(if_match=header), settings)
    check_if_match(_request(), settings)
    # A weak tag never matches.
    for header in ('"other"', f"W/{etag}", "other"):
        with pytest.raises(PreconditionFailed) as refused:
            check_if_match(_request(if_match=header), settings)
        assert refused.value.headers["ETag"] == etag
