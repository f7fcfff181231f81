"""Cursors and pages, without HTTP."""

import string

import pytest

from control_domain.paging import DEFAULT_LIMIT, Cursors, Page, read_page
from pipeline_contracts.errors import InvalidInput

KEY = b"k" * 32
CURSORS = Cursors(KEY, "acc_1", "deployments")
_ALPHABET = string.ascii_letters + string.digits + "-_"


@pytest.mark.parametrize("last_id", [0, 1, 255, 256, 2**31 - 1, 2**63 - 1, 2**64 - 1])
def test_a_cursor_names_the_id_that_was_shown_last(last_id: int) -> None:
    cursor = CURSORS.write(last_id)
    assert CURSORS.read(cursor) == last_id
    assert len(cursor) == 27
    assert set(cursor) <= set(_ALPHABET)


def test_a_cursor_altered_in_any_character_is_none() -> None:
    """This includes the last character, in which two bits have no meaning."""
    cursor = CURSORS.write(4711)
    for place in range(len(cursor)):
        for other in set(_ALPHABET + "=+/.~ \n%\0é") - {cursor[place]}:
            assert CURSORS.read(cursor[:place] + other + cursor[place + 1 :]) is None, (place, other)


def test_a_cursor_that_is_cut_or_longer_is_none() -> None:
    cursor = CURSORS.write(4711)
    for given in (
        "",
        cursor[:-1],
        cursor[1:],
        cursor + "A",
        cursor + "=",
        cursor + "\n",
        " " + cursor,
        cursor * 2,
    ):
        assert CURSORS.read(given) is None, given


def test_a_cursor_serves_one_list_of_one_account_under_one_key() -> None:
    cursor = CURSORS.write(4711)
    for others in (
        Cursors(KEY, "acc_2", "deployments"),
        Cursors(KEY, "acc_1", "projects"),
        Cursors(b"l" * 32, "acc_1", "deployments"),
        # The boundary between the two names is part of the key.
        Cursors(KEY, "acc_1\0deployments", ""),
    ):
        assert others.read(cursor) is None
        assert others.write(4711) != cursor
    assert Cursors(KEY, "acc_1", "deployments").read(cursor) == 4711


@pytest.mark.parametrize(
    ("given", "page"),
    [
        ([], None),
        ([("page", "2"), ("Limit", "5")], None),
        ([("limit", "1")], Page(1, None)),
        ([("limit", "100"), ("other", "x")], Page(100, None)),
        ([("cursor", CURSORS.write(9))], Page(DEFAULT_LIMIT, 9)),
        ([("cursor", CURSORS.write(9)), ("limit", "2")], Page(2, 9)),
    ],
)
def test_page_parameters_are_parsed(given: list[tuple[str, str]], page: Page | None) -> None:
    assert read_page(given, CURSORS) == page


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ([("limit", "0")], ["limit"]),
        ([("limit", "101")], ["limit"]),
        ([("limit", "1000")], ["limit"]),
        ([("limit", "")], ["limit"]),
        ([("limit", "٣")], ["limit"]),
        ([("limit", "5\n")], ["limit"]),
        ([("limit", "9" * 5000)], ["limit"]),
        ([("limit", "5"), ("limit", "5")], ["limit"]),
        ([("cursor", "")], ["cursor"]),
        ([("cursor", CURSORS.write(1)), ("cursor", CURSORS.write(1))], ["cursor"]),
        ([("cursor", "x"), ("limit", "x")], ["limit", "cursor"]),
    ],
)
def test_every_parameter_at_fault_is_named(given: list[tuple[str, str]], fields: list[str]) -> None:
    with pytest.raises(InvalidInput) as raised:
        read_page(given, CURSORS)
    assert [error.field for error in raised.value.errors] == fields


@pytest.mark.parametrize("key", ["a", "1774432800000 0190f3c2-7b5e-7a10-8c3d-2f4b6a8c0e1f", "øre", "k" * 100])
def test_a_cursor_of_a_list_in_another_order(key: str) -> None:
    cursor = CURSORS.write_key(key)
    assert CURSORS.read_key(cursor) == key
    assert Cursors(KEY, "acc_2", "deployments").read_key(cursor) is None
    for place in range(len(cursor)):
        for other in set(_ALPHABET) - {cursor[place]}:
            assert CURSORS.read_key(cursor[:place] + other + cursor[place + 1 :]) is None
    assert CURSORS.read_key(cursor[:-1]) is None
    assert CURSORS.read_key(cursor + "A") is None
