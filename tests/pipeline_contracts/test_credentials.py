"""Credentials: their format, and the detection of invalid ones."""

import zlib

import pytest

from pipeline_contracts.credentials import (
    CredentialKind,
    digest_credential,
    is_well_formed,
    make_credential,
    parse_bearer,
)

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


# A tracker ID is not a secret, and is created like other IDs. A name is not a credential.
_NO_SECRETS = (CredentialKind.SITE, CredentialKind.HEARTBEAT_NAME)


@pytest.mark.parametrize("kind", [kind for kind in CredentialKind if kind not in _NO_SECRETS])
def test_credential_is_prefix_random_part_and_checksum(kind: CredentialKind) -> None:
    credential = make_credential(kind)
    assert credential.startswith(kind.value) and credential.startswith("phr_")
    assert len(credential) == 8 + 32 + 6
    number = 0
    for character in credential[-6:]:
        number = number * 62 + _BASE62.index(character)
    assert number == zlib.crc32(credential[:-6].encode())
    assert is_well_formed(credential, kind)
    assert make_credential(kind) != credential


def test_checksum_detects_any_changed_character() -> None:
    credential = make_credential(CredentialKind.INGEST_KEY)
    for index in range(len(credential)):
        for other in ("0", "z", "-", "æ"):
            if credential[index] != other:
                changed = credential[:index] + other + credential[index + 1 :]
                assert not is_well_formed(changed, CredentialKind.INGEST_KEY)
    for wrong in (credential[:-1], credential + "0", "", credential.replace("ing", "pat")):
        assert not is_well_formed(wrong, CredentialKind.INGEST_KEY)


def test_the_digest_is_sha256() -> None:
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert digest_credential("abc").hex() == expected


@pytest.mark.parametrize(
    ("header", "credential"),
    [
        ("Bearer x", "x"),
        ("bearer x", "x"),
        ("BEARER  x ", "x"),
        ("Basic x", None),
        ("Bearer", None),
        ("Bearer ", None),
        ("x", None),
        ("", None),
        (None, None),
        ("Bearer " + "x" * 1000, None),
    ],
)
def test_the_scheme_is_bearer_in_any_case(header: str | None, credential: str | None) -> None:
    assert parse_bearer(header) == credential
