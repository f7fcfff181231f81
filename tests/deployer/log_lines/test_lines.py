"""Lines do not depend on the chunks of the stream, have no control characters, are bounded and hide values."""

import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deployer.log_lines.lines import MAX_LINE_CHARACTERS, TRUNCATION_NOTE, LineSplitter
from deployer.log_lines.masking import COMMON_WORDS, HIDDEN, Mask

NOTHING = Mask([])


def split(*chunks: bytes, mask: Mask = NOTHING) -> list[str]:
    splitter = LineSplitter(mask)
    return [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.flush()


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
    assert split(data) == lines
    assert split(*(data[at : at + 1] for at in range(len(data)))) == lines


def test_a_long_line_is_truncated() -> None:
    assert split(b"x" * MAX_LINE_CHARACTERS + b"\nnext\n") == ["x" * MAX_LINE_CHARACTERS, "next"]
    long, after = split(b"x" * (MAX_LINE_CHARACTERS + 1) + b"\nnext\n")
    assert long == "x" * (MAX_LINE_CHARACTERS - len(TRUNCATION_NOTE)) + TRUNCATION_NOTE
    assert after == "next"
    assert split(b"x" * 100_000 + b"\rshort\n") == ["short"]


@pytest.mark.parametrize("size", range(MAX_LINE_CHARACTERS - 40, MAX_LINE_CHARACTERS + 60, 3))
def test_a_truncated_line_shows_no_beginning_of_a_value(size: int) -> None:
    secret = "correct-horse-battery-staple"
    (line,) = split(b"." * size + secret.encode() * 30 + b"\n", mask=Mask([secret]))
    assert not any(secret[:length] in line for length in range(4, len(secret) + 1))
    (line,) = split(b"." * size + secret.encode() * 3_000 + b"\n", mask=Mask([secret, secret * 100]))
    assert not any(secret[:length] in line for length in range(4, len(secret) + 1))


@pytest.mark.parametrize("size", range(MAX_LINE_CHARACTERS - 60, MAX_LINE_CHARACTERS + 20, 3))
def test_a_truncated_line_shows_no_beginning_of_an_escaped_value(size: int) -> None:
    # Escaped, it is longer than the characters that are searched after those that are shown.
    (line,) = split(b"." * size + rb"\u0070\u0061\u0073\u0073\u0077ord" * 30 + b"\n", mask=Mask(["password"]))
    assert len(line.removesuffix(TRUNCATION_NOTE).lstrip(".").removeprefix(HIDDEN)) < 4


def test_values_are_found_across_chunks_and_escape_sequences() -> None:
    assert split(b"say pass", b"word!\n", mask=Mask(["password"])) == [f"say {HIDDEN}!"]
    assert split(b"say pa\x1b[1mss\x00wo", b"rd!\n", mask=Mask(["password"])) == [f"say {HIDDEN}!"]


def test_a_prompt_is_flushed_once() -> None:
    splitter = LineSplitter(NOTHING)
    assert splitter.feed(b"Continue? ") == []
    assert splitter.flush() == ["Continue? "]
    assert splitter.flush() == []
    assert splitter.feed(b"\n") == []
    assert splitter.feed(b"\n") == [""]
    assert splitter.feed(b"Really? ") + splitter.flush() + splitter.feed(b"yes\n") == ["Really? ", "yes"]


def test_a_value_is_hidden_although_its_beginning_was_flushed() -> None:
    splitter = LineSplitter(Mask(["password"]))
    assert splitter.feed(b"say passw") + splitter.flush() == [f"say {HIDDEN}"]
    assert splitter.flush() == []
    assert splitter.feed(b"ord!\n") == [f"{HIDDEN}!"]
    # No value after all: now it is shown.
    assert splitter.feed(b"say passw") + splitter.flush() == [f"say {HIDDEN}"]
    assert splitter.feed(b"ay\n") == ["passway"]


def test_an_escaped_value_is_hidden_although_its_beginning_was_flushed() -> None:
    value, written = "pass+word", rb"pass\u002Bword"
    for at in range(len(written) + 1):
        splitter = LineSplitter(Mask([value]))
        first = splitter.feed(b"say " + written[:at]) + splitter.flush()
        second = splitter.feed(written[at:] + b"!\n")
        assert first in ([f"say {HIDDEN}"], [f"say {value[:at]}"]) and (at < 4 or HIDDEN in first[0])
        assert second == ([f"{HIDDEN}!"] if at < len(written) else ["!"])


def test_the_rest_of_a_flushed_truncated_line_is_dropped() -> None:
    splitter = LineSplitter(Mask(["password"]))
    splitter.feed(b"x" * 10_000 + b"passw")
    assert [len(line) for line in splitter.flush()] == [MAX_LINE_CHARACTERS]
    assert splitter.feed(b"ord" + b"x" * 10_000) + splitter.flush() + splitter.feed(b"\nnext\n") == ["next"]


# Tracing each allocation is slow; a tenth of it would show any growth.
@pytest.mark.parametrize("megabytes", [10, pytest.param(100, marks=pytest.mark.full)])
def test_memory_is_bounded_for_a_line_without_an_end(megabytes: int) -> None:
    splitter = LineSplitter(Mask(["password"]))
    chunk = b"x" * 65_536
    tracemalloc.start()
    try:
        for _ in range(16 * megabytes):
            assert splitter.feed(chunk) == []
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1_000_000
    assert len(splitter.flush()[0]) == MAX_LINE_CHARACTERS


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
    """Return values, bytes that contain them, and the positions at which to split the bytes into chunks."""
    values = draw(VALUES)
    pieces = st.lists((st.sampled_from(values) | NOISE) if values else NOISE, max_size=25)
    data = "".join(draw(pieces)).encode() + draw(st.binary(max_size=3))
    borders = draw(st.lists(st.integers(0, len(data)), max_size=20).map(sorted))
    return values, data, borders


def is_to_hide(value: str) -> bool:
    return len(value) >= 4 and bool(value.strip()) and value.strip().lower() not in COMMON_WORDS


@given(streams())
@example((["abca"], b"abcabc\n", [3, 4]))
def test_lines_do_not_depend_on_chunks_and_show_no_value(stream: tuple[list[str], bytes, list[int]]) -> None:
    values, data, borders = stream
    mask = Mask(values)
    lines = split(data, mask=mask)
    assert lines == split(
        *(data[a:b] for a, b in zip([0, *borders], [*borders, len(data)], strict=True)), mask=mask
    )
    assert not any(value in line for value in values if is_to_hide(value) for line in lines)
    assert not any(char < " " and char != "\t" for line in lines for char in line)
    assert all(len(line) <= MAX_LINE_CHARACTERS for line in lines)


@given(streams())
def test_lines_that_are_flushed_early_show_no_value(
    stream: tuple[list[str], bytes, list[int]],
) -> None:
    values, data, borders = stream
    splitter = LineSplitter(Mask(values))
    lines: list[str] = []
    for start, end in zip([0, *borders], [*borders, len(data)], strict=True):
        lines += splitter.feed(data[start:end])
        lines += splitter.flush()
    assert not any(value in line for value in values if is_to_hide(value) for line in lines)
