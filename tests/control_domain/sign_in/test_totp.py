"""Codes of authenticators, with the test vectors of RFC 6238."""

import base64

from control_domain.sign_in.totp import find_totp_step, make_totp_code, make_totp_secret, make_totp_url

# RFC 6238, appendix B, SHA-1: the last six of eight digits.
_SECRET = base64.b32encode(b"12345678901234567890").decode()
_VECTORS = {
    59: "287082",
    1111111109: "081804",
    1111111111: "050471",
    1234567890: "005924",
    2000000000: "279037",
    20000000000: "353130",
}


def test_codes_of_the_standard() -> None:
    for seconds, code in _VECTORS.items():
        assert make_totp_code(_SECRET, seconds // 30) == code
        step = seconds // 30
        assert [find_totp_step(_SECRET, code, seconds + 30 * late) for late in (-2, -1, 0, 1, 2)] == [
            *(None, step, step, step, None),
        ]
    assert find_totp_step(_SECRET, "", 59) is None


def test_uri_for_authenticators() -> None:
    secret = make_totp_secret()
    assert len(base64.b32decode(secret)) == 20 and secret != make_totp_secret()
    assert make_totp_url("ABC", "a b@x.example", "Pharos") == (
        "otpauth://totp/Pharos:a%20b%40x.example?secret=ABC&issuer=Pharos&digits=6&period=30"
    )
