"""Bytes of a stream to lines: the same however they come, free of control characters, bounded, values hidden."""

import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deployer.log_lines.lines import CUT, LONGEST_LINE, LineCutter
from deployer.log_lines.masking import COMMON_WORDS, HIDDEN, Mask

NOTHING = Mask([])


def cut(*chunks: bytes, mask: Mask = NOTHING) -> list[str]:
    cutter = LineCutter(mask)
    return [line for chunk in chunks for line in cutter.feed(chunk)] + cutter.end()


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"one\ntwo\r\n\nthree", ["one", "two", "", "three"]),
        (b"", []),
        (b"\n", [""]),
        (b"10%\r50%\r100%\ndone\n", ["100%", "done"]),
        (b"10%\r50%\r", ["50%"]),
        (b"lines of Windows\r\r\n", ["lines of Windows"]),
        ("Blåbær \u2713\n".encode(), ["Blåbær \u2713"]),
        (b"\xff\xc3(\n", ["\ufffd\ufffd("]),
        (b"\x1b[1;31mred\x1b[0m\tplain\x00\x07\x08\n", ["red\tplain"]),
        (b"\x1b]0;title\x07a\x1b]8;;https://x\x1b\\b\x1b(Bc\x1b7d\n", ["abcd"]),
        (b"\x1b]no end\nnext\x1b[3\nlast\x1b", ["]no end", "next[3", "last"]),
        ("\x9b31mred\x85\n".encode(), ["red"]),
        (b"\x1b[" + b"1" * 100 + b"m\n", ["[" + "1" * 100 + "m"]),
    ],
)
def test_bytes_become_lines(data: bytes, lines: list[str]) -> None:
    assert cut(data) == lines
    assert cut(*(data[at : at + 1] for at in range(len(data)))) == lines


def test_a_long_line_is_cut_and_its_rest_dropped() -> None:
    assert cut(b"x" * LONGEST_LINE + b"\nnext\n") == ["x" * LONGEST_LINE, "next"]
    long, after = cut(b"x" * (LONGEST_LINE + 1) + b"\nnext\n")
    assert long == "x" * (LONGEST_LINE - len(CUT)) + CUT
    assert after == "next"
    assert cut(b"x" * 100_000 + b"\rshort\n") == ["short"]


@pytest.mark.parametrize("size", range(LONGEST_LINE - 40, LONGEST_LINE + 60, 3))
def test_a_cut_leaves_no_beginning_of_a_value_over(size: int) -> None:
    secret = "correct-horse-battery-staple"
    (line,) = cut(b"." * size + secret.encode() * 30 + b"\n", mask=Mask([secret]))
    assert not any(secret[:length] in line for length in range(4, len(secret) + 1))
    (line,) = cut(b"." * size + secret.encode() * 3_000 + b"\n", mask=Mask([secret, secret * 100]))
    assert not any(secret[:length] in line for length in range(4, len(secret) + 1))


def test_values_are_found_across_chunks_and_escape_sequences() -> None:
    assert cut(b"say pass", b"word!\n", mask=Mask(["password"])) == [f"say {HIDDEN}!"]
    assert cut(b"say pa\x1b[1mss\x00wo", b"rd!\n", mask=Mask(["password"])) == [f"say {HIDDEN}!"]


def test_a_prompt_is_given_out_once() -> None:
    cutter = LineCutter(NOTHING)
    assert cutter.feed(b"Continue? ") == []
    assert cutter.end() == ["Continue? "]
    assert cutter.end() == []
    assert cutter.feed(b"\n") == []
    assert cutter.feed(b"\n") == [""]
    assert cutter.feed(b"Really? ") + cutter.end() + cutter.feed(b"yes\n") == ["Really? ", "yes"]


def test_a_value_is_hidden_though_its_beginning_was_given_out() -> None:
    cutter = LineCutter(Mask(["password"]))
    assert cutter.feed(b"say passw") + cutter.end() == [f"say {HIDDEN}"]
    assert cutter.end() == []
    assert cutter.feed(b"ord!\n") == [f"{HIDDEN}!"]
    # No value after all: now it is shown.
    assert cutter.feed(b"say passw") + cutter.end() == [f"say {HIDDEN}"]
    assert cutter.feed(b"ay\n") == ["passway"]


def test_what_was_cut_and_given_out_goes_on_after_its_end() -> None:
    cutter = LineCutter(Mask(["password"]))
    cutter.feed(b"x" * 10_000 + b"passw")
    assert [len(line) for line in cutter.end()] == [LONGEST_LINE]
    assert cutter.feed(b"ord" + b"x" * 10_000) + cutter.end() + cutter.feed(b"\nnext\n") == ["next"]


# Tracing each allocation is slow; a tenth of it would show any growth.
@pytest.mark.parametrize("megabytes", [10, pytest.param(100, marks=pytest.mark.full)])
def test_a_line_without_an_end_takes_no_memory(megabytes: int) -> None:
    cutter = LineCutter(Mask(["password"]))
    chunk = b"x" * 65_536
    tracemalloc.start()
    try:
        for _ in range(16 * megabytes):
            assert cutter.feed(chunk) == []
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1_000_000
    assert len(cutter.end()[0]) == LONGEST_LINE


VALUES = st.lists(
    st.text("abc", min_size=3, max_size=6)
    | st.text("ab\n\r \x1b[m", max_size=12)
    | st.text(st.characters(codec="utf-8"), max_size=300),
    max_size=6,
)
NOISE = st.sampled_from(
    ["\n", "\r", "\r\n", "\x1b[1m", "\x1b]0;x", "\x07", "\x1b\\", "\x1b", "\x9b", "a", "b", "é", "x" * 8_180]
)


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[str], bytes, list[int]]:
    """Values, bytes that hold them, and where to cut the bytes."""
    values = draw(VALUES)
    pieces = st.lists((st.sampled_from(values) | NOISE) if values else NOISE, max_size=25)
    data = "".join(draw(pieces)).encode() + draw(st.binary(max_size=3))
    borders = draw(st.lists(st.integers(0, len(data)), max_size=20).map(sorted))
    return values, data, borders


def is_to_hide(value: str) -> bool:
    return len(value) >= 4 and bool(value.strip()) and value.strip().lower() not in COMMON_WORDS


@given(streams())
@example((["abca"], b"abcabc\n", [3, 4]))
def test_chunks_change_nothing_and_no_value_is_shown(stream: tuple[list[str], bytes, list[int]]) -> None:
    values, data, borders = stream
    mask = Mask(values)
    lines = cut(data, mask=mask)
    assert lines == cut(
        *(data[a:b] for a, b in zip([0, *borders], [*borders, len(data)], strict=True)), mask=mask
    )
    assert not any(value in line for value in values if is_to_hide(value) for line in lines)
    assert all(
        line.replace("\t", " ").isprintable() or not any(ord(char) < 32 for char in line) for line in lines
    )
    assert all(len(line) <= LONGEST_LINE for line in lines)


@given(streams())
def test_no_value_is_shown_though_lines_are_given_out_early(
    stream: tuple[list[str], bytes, list[int]],
) -> None:
    values, data, borders = stream
    cutter = LineCutter(Mask(values))
    lines: list[str] = []
    for start, end in zip([0, *borders], [*borders, len(data)], strict=True):
        lines += cutter.feed(data[start:end])
        lines += cutter.end()
    assert not any(value in line for value in values if is_to_hide(value) for line in lines)
