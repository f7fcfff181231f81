"""Public identifiers and receipt IDs."""

import random

import pytest

from pipeline_contracts.identifiers import (
    encode_base32,
    make_identifier,
    open_receipt,
    receipt_name,
    seal_receipt,
)

KEY = b"k" * 32
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


@pytest.mark.parametrize("size", range(1, 40))
def test_base32_encodes_the_number(size: int) -> None:
    data = random.Random(size).randbytes(size)
    text = encode_base32(data)
    number = 0
    for character in text:
        number = number * 32 + _ALPHABET.index(character)
    assert (number, len(text)) == (int.from_bytes(data), (size * 8 + 4) // 5)


def test_an_identifier_is_a_uuid_of_version_7() -> None:
    now = 1_795_000_000_123
    identifier = make_identifier("prj", now)
    prefix, _, text = identifier.partition("_")
    number = 0
    for character in text:
        number = number * 32 + _ALPHABET.index(character)
    assert (prefix, len(text), number.bit_length() <= 128) == ("prj", 26, True)
    assert number >> 80 == now
    assert number >> 76 & 15 == 7
    assert number >> 62 & 3 == 2


def test_identifiers_sort_by_time_and_differ() -> None:
    made = [make_identifier("env", now) for now in range(1_795_000_000_000, 1_795_000_000_100)]
    assert made == sorted(made)
    assert len({make_identifier("env", 1) for _ in range(1000)}) == 1000


def test_only_a_resent_batch_has_the_same_receipt() -> None:
    names = {receipt_name(env, batch) for env in ("e1", "e2", "e") for batch in ("b", "1b", "2b", "")}
    assert len(names) == 12
    assert receipt_name("e1", "b") == receipt_name("e1", "b")


def test_a_receipt_opens_for_its_environment_and_key_only() -> None:
    name = receipt_name("env_1", "b")
    receipt = seal_receipt(name, "env_1", KEY)
    assert (receipt[:4], len(receipt)) == ("rcp_", 36)
    assert open_receipt(receipt, "env_1", KEY) == name
    assert open_receipt(receipt, "env_2", KEY) is None
    assert open_receipt(receipt, "env_1", b"x" * 32) is None


def test_a_changed_receipt_does_not_open() -> None:
    receipt = seal_receipt(receipt_name("env_1", "b"), "env_1", KEY)
    for index in range(len(receipt)):
        for other in ("0", "z", "I", "ü"):
            if receipt[index] != other:
                changed = receipt[:index] + other + receipt[index + 1 :]
                assert open_receipt(changed, "env_1", KEY) is None
    for wrong in ("", "rcp_", receipt + "0", receipt[:-1], receipt.upper()):
        assert open_receipt(wrong, "env_1", KEY) is None
