"""Which requests may use a session cookie, and the name of the cookie."""

import re
from types import SimpleNamespace

import pytest
from starlette.requests import HTTPConnection

from control_api.http.same_origin import check_same_origin, refuse_other_sites
from control_api.http.session_cookie import (
    count_session_cookies,
    make_cookie_suffix,
    read_credential,
    read_session_cookie,
    set_session_cookie,
)
from pipeline_contracts.client_address import parse_trusted_proxies
from pipeline_contracts.errors import CrossSiteRequest

PUBLIC = "https://pharos.example"


def connect(
    method: str = "GET",
    headers: dict[str, str] | None = None,
    *,
    public_url: str | None = None,
    peer: str = "192.0.2.1",
    suffix: str = "1f2e",
) -> HTTPConnection:
    """Return a request over plain HTTP; 10.0.0.0/8 are trusted proxies."""
    state = SimpleNamespace(
        public_url=public_url, client_addresses=parse_trusted_proxies("10.0.0.0/8"), cookie_suffix=suffix
    )
    named = {"host": "pharos.example", **(headers or {})}
    scope = {
        "type": "http",
        "method": method,
        "scheme": "http",
        "path": "/",
        "query_string": b"",
        "server": ("pharos.example", 80),
        "client": (peer, 1),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in named.items()],
        "app": SimpleNamespace(state=state),
        "state": {},
    }
    return HTTPConnection(scope)


def is_allowed(method: str, headers: dict[str, str], **options: str) -> bool:
    try:
        check_same_origin(connect(method, headers, **options))
    except CrossSiteRequest:
        return False
    return True


def test_pages_that_may_use_the_cookie() -> None:
    for site, reads, changes in (
        ("same-origin", True, True),
        ("none", True, False),
        ("same-site", False, False),
        ("cross-site", False, False),
        ("Same-Origin ", True, True),
        ("unheard-of", True, False),
    ):
        sent = {"sec-fetch-site": site, "origin": "http://pharos.example"}
        assert is_allowed("GET", sent) is is_allowed("HEAD", sent) is reads, site
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            assert is_allowed(method, sent) is changes, (method, site)


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://pharos.example", True),
        ("http://pharos.example:80", True),
        ("HTTP://Pharos.Example", True),
        # A proxy that terminates TLS, but is not trusted.
        ("https://pharos.example", True),
        ("http://pharos.example:8000", False),
        ("http://app.pharos.example", False),
        ("http://pharos.example.evil.example", False),
        ("null", False),
        ("", False),
    ],
)
def test_browsers_without_fetch_metadata(origin: str, expected: bool) -> None:
    assert is_allowed("POST", {"origin": origin}) is expected
    assert is_allowed("GET", {"origin": origin})
    assert not is_allowed("POST", {})
    assert is_allowed("POST", {"origin": PUBLIC, "host": "10.1.1.1:8000"}, public_url=f"{PUBLIC}/")


def test_sign_in_from_other_pages() -> None:
    """Programs send neither header, and may sign in."""
    refuse_other_sites(connect("POST"))
    refuse_other_sites(connect("POST", {"sec-fetch-site": "same-origin"}))
    for headers in (
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "none"},
        {"origin": "http://app.pharos.example"},
    ):
        with pytest.raises(CrossSiteRequest):
            refuse_other_sites(connect("POST", headers))


@pytest.mark.parametrize(
    ("headers", "options", "is_secure"),
    [
        ({}, {}, False),
        ({"x-forwarded-proto": "https"}, {}, False),
        ({"x-forwarded-proto": "https"}, {"peer": "10.0.0.1"}, True),
        ({}, {"public_url": PUBLIC}, True),
        ({"host": "pharos.example:443"}, {"public_url": PUBLIC}, True),
        ({"host": "127.0.0.1:8000"}, {"public_url": PUBLIC}, False),
        ({}, {"public_url": "http://pharos.example"}, False),
    ],
)
def test_the_name_of_the_cookie(headers: dict[str, str], options: dict[str, str], is_secure: bool) -> None:
    """Over HTTPS no other host can set it. A cookie of the other name is not read."""
    names = ("__Host-pharos_session_1f2e", "pharos_session_1f2e")
    name, other = names if is_secure else reversed(names)
    answered = connect(headers=headers, **options)
    set_session_cookie(answered, "secret", 60)
    (cookie,) = answered.scope["state"]["set_cookies"].values()
    expected = f"{name}=secret; Path=/; Max-Age=60; HttpOnly; SameSite=Strict"
    assert cookie == (f"{expected}; Secure" if is_secure else expected)
    sent = connect(headers={**headers, "cookie": f"{other}=tossed; {name}=secret"}, **options)
    assert read_session_cookie(sent) == read_credential(sent) == "secret"


def test_each_installation_has_a_cookie_of_its_own() -> None:
    """Browsers send the cookies of all ports of a host: those of another installation are not read."""
    one, other = make_cookie_suffix(b"one"), make_cookie_suffix(b"other")
    assert one == make_cookie_suffix(b"one") and re.fullmatch("[0-9a-f]{8}", one) and one != other
    sent = {"cookie": f"pharos_session=former; pharos_session_{one}=mine; pharos_session_{other}=theirs"}
    assert read_session_cookie(connect(headers=sent, suffix=one)) == "mine"
    assert read_session_cookie(connect(headers=sent, suffix=other)) == "theirs"
    assert read_session_cookie(connect(headers=sent)) is None


@pytest.mark.parametrize("public_url", [None, PUBLIC])
def test_cookies_that_only_look_like_the_session(public_url: str | None) -> None:
    """Browsers let other hosts set these, with and without HTTPS."""
    name = "__Host-pharos_session_1f2e" if public_url else "pharos_session_1f2e"
    for tossed in (
        *(f"{blank}{name}=evil" for blank in '\xa0\x85\t\x0b\x0c\x1c\x1f$"='),
        *(f"{name}{blank}=evil" for blank in ' \xa0\x85\t"'),
        f"{name.upper()}=evil",
        f'"{name}"=evil',
        f"a,{name}=evil",
        f"{name}x=evil",
        name,
    ):
        for header in (f"{name}=real; {tossed}", f"{tossed}; {name}=real;", f"{tossed};{name}=real"):
            sent = connect(headers={"cookie": header}, public_url=public_url)
            assert (read_session_cookie(sent), sent.scope["state"]) == ("real", {}), header
        assert read_session_cookie(connect(headers={"cookie": tossed}, public_url=public_url)) is None, tossed


def test_several_cookies_of_the_name_are_no_session() -> None:
    for header in ("{0}=real; {0}=evil", "{0}=evil; a=1; {0}=real", "{0}=; {0}=real", "{0}=real; {0}=real"):
        sent = connect(headers={"cookie": header.format("pharos_session_1f2e")})
        assert (read_session_cookie(sent), read_credential(sent), count_session_cookies(sent)) == (
            None,
            None,
            2,
        )
        assert list(sent.scope["state"]["set_cookies"]) == [
            "=x; Path=/; Max-Age=0",
            "pharos_session_1f2e=; Path=/; Domain=pharos.example; Max-Age=0",
            "=x; Path=/; Domain=pharos.example; Max-Age=0",
        ]
        # The response to a sign-in sets the cookie of this host, too.
        set_session_cookie(sent, "new", 60)
        assert len(sent.scope["state"]["set_cookies"]) == 4
    apart = connect(headers={"cookie": "pharos_session_1f2e=real"})
    apart.scope["headers"].append((b"cookie", b"pharos_session_1f2e=evil"))
    assert read_session_cookie(apart) is None


def test_a_token_counts_alone() -> None:
    sent = connect(headers={"cookie": "pharos_session_1f2e=secret", "authorization": "Bearer phr_pat_x"})
    assert read_credential(sent) == "phr_pat_x"
    assert (
        read_credential(connect(headers={"cookie": "pharos_session_1f2e=secret", "authorization": "Basic x"}))
        == "secret"
    )
    assert read_credential(connect()) is None
