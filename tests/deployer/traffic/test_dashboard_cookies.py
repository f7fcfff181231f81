"""Which cookies of applications are taken for the dashboard's."""

from deployer.traffic.proxy.dashboard_cookies import drop_dashboard_cookies, sets_dashboard_cookie

_NAMES = (
    b"pharos_session",
    b"pharos_session_1f2e3d4c",
    b"__Host-pharos_session_1f2e3d4c",
    b"pharos_oidc_1f2e3d4c",
    b"__Host-pharos_oidc_1f2e3d4c",
)


def test_an_application_sets_no_cookie_that_looks_like_the_dashboards() -> None:
    for name in _NAMES:
        for spelled in (
            name,
            # Browsers send the value alone.
            b"=" + name,
            b" = " + name,
            b"\t=\t" + name,
            b"==" + name,
            # Some parsers remove these.
            *(
                blank + name
                for blank in (b"\xa0", b"\x85", b"\xc2\xa0", b"\xe2\x80\x80", b"\x0b", b"\x0c", b"\x1c")
            ),
            *(name + blank for blank in (b" ", b"\t", b"\xa0", b"\x85", b"\x00", b"\x1f")),
            b"=\xa0" + name,
            b'"' + name + b'"',
            b"$" + name,
            name.upper(),
            b"__Secure-" + name.removeprefix(b"__Host-"),
            b"__host-http-" + name.removeprefix(b"__Host-"),
        ):
            for end in (b"=evil; Path=/; Domain=example.com", b"=", b"", b"; Max-Age=0"):
                assert sets_dashboard_cookie(spelled + end), spelled + end


def test_applications_keep_their_own_cookies() -> None:
    for value in (
        b"a=1; Path=/pharos_session",
        b"a=pharos_session_1f2e3d4c=1",
        b"my_pharos_session=1",
        b"pharos_sessions=1",
        b"pharos=1",
        b"__Host-session=1",
        b"=1",
        b"\xe9=\xff",
        b"",
    ):
        assert not sets_dashboard_cookie(value), value
        assert drop_dashboard_cookies(b"b=2; " + value).startswith(b"b=2"), value
    assert drop_dashboard_cookies(b"=pharos_session_1f2e3d4c=1; a=1; \xa0pharos_oidc=1") == b"a=1"
