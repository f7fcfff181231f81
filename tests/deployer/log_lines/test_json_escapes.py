"""Escapes of JSON strings are undone, and positions lead back to the original text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployer.log_lines.control_characters import remove_controls
from deployer.log_lines.json_escapes import iterate_readings

_SHORT = {
    '"': '\\"',
    "\\": "\\\\",
    "/": "\\/",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


@st.composite
def json_strings(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> tuple[str, str]:
    """Return a text, and the same text inside a JSON string, as some encoder may write it; controls are escaped."""
    text = draw(texts)
    written: list[str] = []
    for character in text:
        units = character.encode("utf-16-be").hex("-", 2).split("-")
        long = "".join(f"\\u{unit}" for unit in units)
        ways = [long, long.upper().replace("U", "u")]
        if character in _SHORT:
            ways.append(_SHORT[character])
        if character not in '"\\' and character >= " " and remove_controls(character):
            ways.append(character)
        written.append(draw(st.sampled_from(ways)))
    return text, "".join(written)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no escapes", []),
        (r"C:\Users is no escape", []),
        (r"a\u002Bb\/\"\\", ["a+b/\"\\", "a+b/\""]),
        (r"\ud83d\uDE00\u00e4", ["😀ä"]),
        # Two levels, and no third one.
        (r"a\\u002Bb", [r"a\u002Bb", "a+b"]),
        (r"a\\\\u002Bb", [r"a\\u002Bb", r"a\u002Bb"]),
        # Halves of surrogate pairs, and digits that are none.
        (r"\udE00a\ud83d!", ["\ude00a\ud83d!"]),
        (r"\u00fg", []),
        # The rest of an escape may follow later.
        ("a\\", ["a"]),
        (r"\/\u00e", ["/"]),
        (r"a\ud83d", ["a"]),
        (r"a\ud83d\ude", ["a"]),
        (r"a\\u00", [r"a\u00", "a"]),
        # Control characters, as in `remove_controls`.
        (r"a\u001b[1mb\u0000c\n", ["abc\n"]),
    ],
)  # fmt: skip
def test_escapes_are_undone(text: str, expected: list[str]) -> None:
    first, *others = iterate_readings(text)
    assert (first.text, list(first.places)) == (text, list(range(len(text) + 1)))
    assert [reading.text for reading in others] == expected


def test_positions_lead_to_the_original_text() -> None:
    *_, once, twice = iterate_readings(r"a\\u002Bb\u001b[m\ud83d\ude00c\u00")
    assert once.text == r"a\u002Bb😀c"
    assert once.places == [0, 1, 3, 4, 5, 6, 7, 8, 17, 29, 30]
    assert (twice.text, twice.places) == ("a+b😀c", [0, 1, 8, 17, 29, 30])


@given(json_strings(st.text(st.characters(codec="utf-8"))))
def test_a_json_string_is_read_as_json_does(pair: tuple[str, str]) -> None:
    text, written = pair
    assert json.loads(f'"{written}"') == text
    reading, *undone = iterate_readings(f'"{written}"')
    assert (undone or [reading])[0].text == remove_controls(f'"{text}"')


@pytest.mark.parametrize(
    "piece", ["\\", r"\\", r"\u005c", r"\u005cu005c", r"\\u0061", r"\ud83d\ude00", r"\u006", r"\u001b]", "a"]
)
def test_hostile_texts_are_not_read_again_and_again(piece: str) -> None:
    text = piece * (8192 // len(piece))
    readings = list(iterate_readings(text))
    assert len(readings) <= 3
    for reading in readings:
        assert len(reading.text) <= len(text) and len(reading.places) == len(reading.text) + 1
        assert list(reading.places) == sorted(reading.places) and reading.places[-1] <= len(text)
