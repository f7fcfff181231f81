"""Which cookies of a foreign host are removed."""

import pytest

from control_api.http.cookie_header import find_cookie_values, make_deletions


def test_values_are_kept_as_sent() -> None:
    headers = [
        (b"cookie", b'a="1; b=2";  a=x==;b=\xe9; a='),
        (b"x", b"a=3"),
        (b"cookie", b"a=4"),
    ]
    assert find_cookie_values(headers, b"a") == ['"1', "x==", "", "4"]
    assert find_cookie_values(headers, b"b") == ['2"', "\xe9"]
    assert find_cookie_values(headers, b"c") == []


def test_every_domain_and_path_that_reaches_a_request() -> None:
    hosts = ["pharos.apps.example.com:8000", "PHAROS.apps.example.com"]
    paths = ("/", "/api", "/api/", "/api/v1", "/api/v1/", "/api/v1/me")
    domains = (
        "",
        *(f"; Domain={name}" for name in ("pharos.apps.example.com", "apps.example.com", "example.com")),
    )
    nameless = [f"=x; Path={path}{domain}; Max-Age=0" for path in paths for domain in domains]
    named = [f"s=; Path={path}{domain}; Max-Age=0" for path in paths for domain in domains]
    made = make_deletions("s", hosts, "/api/v1/me")
    assert len(made) == len(set(made)) and set(made) == {*nameless, *named[1:]}
    # The cookie that the host itself has set stays.
    assert named[0] == "s=; Path=/; Max-Age=0"
    # Browsers accept no other domain and path for the name.
    assert make_deletions("__Host-s", hosts, "/api/v1/me") == nameless


@pytest.mark.parametrize(
    ("host", "path", "domains", "paths"),
    [
        ("localhost:8000", "/", {"localhost"}, {"/"}),
        ("pharos.localhost", "/a/", {"pharos.localhost"}, {"/", "/a", "/a/"}),
        ("127.0.0.1:8000", "//a", set(), {"/", "//", "//a"}),
        ("[::1]:8000", "/a;b", set(), {"/"}),
        ("", "*", set(), {"/"}),
        ("a..b", "/\xe9", set(), {"/"}),
        ("a; Domain=b", "/\r\nX: 1", set(), {"/"}),
    ],
)
def test_unusual_hosts_and_paths(host: str, path: str, domains: set[str], paths: set[str]) -> None:
    attributes = [
        dict(part.split("=", 1) for part in made.split("; ")[1:])
        for made in make_deletions("__Host-s", [host], path)
    ]
    assert {each.get("Domain") for each in attributes} == {None, *domains}
    assert {each["Path"] for each in attributes} == paths


def test_the_response_stays_small() -> None:
    made = make_deletions("s", [".".join(["sub"] * 60)], "/a" * 1000)
    assert sum(len(f"Set-Cookie: {each}\r\n") for each in made) <= 3072
    assert made[0] == "=x; Path=/; Max-Age=0"
