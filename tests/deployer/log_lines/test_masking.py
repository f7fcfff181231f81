"""`Mask` hides values in the forms in which tools print them, and nothing else."""

import base64
import json
import shlex
import subprocess
import tracemalloc
from typing import Any
from unittest.mock import patch
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from deployer.log_lines import pattern_index
from deployer.log_lines.masking import COMMON_WORDS, HIDDEN, Mask
from tests.deployer.log_lines.test_json_escapes import json_strings
from tests.support.examples import EXAMPLES

SECRET = 'pä$$ "wörd"/it\'s+100%&<x>'


@pytest.mark.parametrize(
    "printed",
    [
        SECRET,
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        json.dumps(SECRET).replace("/", "\\/"),
        quote(SECRET),
        quote(SECRET, safe=""),
        quote(SECRET, safe="").lower(),
        quote_plus(SECRET),
        repr(SECRET),
        repr(SECRET.encode()),
        shlex.quote(SECRET),
        "'" + SECRET.replace("'", "'\\''") + "'",
        base64.b64encode(SECRET.encode()).decode(),
        base64.b64encode(SECRET.encode()).decode().rstrip("="),
        base64.urlsafe_b64encode(SECRET.encode()).decode(),
        "Basic " + base64.b64encode(b"deploy:" + SECRET.encode()).decode(),
        "Basic " + base64.b64encode(b"admin:" + SECRET.encode()).decode(),
        "Basic " + base64.b64encode(b"user:" + SECRET.encode() + b"\n").decode(),
    ],
)
def test_a_value_is_hidden_in_the_forms_of_tools(printed: str) -> None:
    shown = Mask([SECRET]).hide(f"the value is {printed} today")
    assert HIDDEN in shown
    assert len(shown) <= len(f"the value is Basic '{HIDDEN}' today") + 12
    assert not any(piece in shown for piece in ("rd", "100", "%24", "JC"))


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        # System.Text.Json of .NET: everything except letters and digits; PHP; a nested document; Jackson for ASCII.
        ("EMI+K7/x", r'{"@mt":"config","key":"§EMI\u002BK7/x§"}'),
        ("EMI+K7/x", r'info: {"key":"§EMI\u002BK7\/x§"}'),
        ("EMI+K7/x", r'{"body":"{\"key\":\"§EMI\\u002BK7\\/x§\"}"}'),
        (r"p\nss", r'{"n":["§p\u005Cnss§"]}'),
        ("wörd😀s", r"§w\u00F6rd\uD83D\uDE00s§"),
        # Backslashes that are no escapes.
        ("EMI+K7/x", r"C:\Users\\§EMI\u002BK7/x§\ "),
        ("C:\\new", r"§C:\new§ §C:\\new§ §C:\\\\new§"),
        # Each line of a value, as in the text itself; and a character that logs do not have.
        ("some+one\nelse", r"§some\u002Bone§\u000A§else§"),
        ("pass+word", r"§pa\u0000ss\u001b[1m\u002Bword§!"),
        # The placeholder in a value.
        (f"{HIDDEN}+word", r"§\u2022\u2022\u2022\u002Bword§"),
    ],
)  # fmt: skip
def test_a_value_is_hidden_however_json_escapes_it(value: str, printed: str) -> None:
    """A value is between two section signs."""
    expected = HIDDEN.join(printed.split("§")[::2])
    assert Mask([value, "other value"]).hide(printed.replace("§", "")) == expected


@settings(max_examples=EXAMPLES)
@given(json_strings(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=4)))
def test_a_value_is_hidden_whatever_an_encoder_escapes(pair: tuple[str, str]) -> None:
    value, written = pair
    assume("•" not in value and value.lower() not in COMMON_WORDS)
    nested = written.replace("\\", "\\\\").replace('"', '\\"')
    for text in (written, nested):
        assert Mask([value]).hide(f"a {text} b") == f"a {HIDDEN} b"


@pytest.mark.parametrize(
    "script", ['set -x; : "$V"', "export -p", "printf '%q' \"$V\"", "declare -p V", 'echo "$V" | base64']
)
def test_a_value_is_hidden_in_the_output_of_a_shell(script: str) -> None:
    value = 'it\'s $HOME and `more` "quotes" \\ (100%) ' + "x1y2z3" * 20
    run = subprocess.run(["bash", "-c", script], env={"V": value}, capture_output=True, text=True, check=True)
    printed = [line for line in (run.stdout + run.stderr).splitlines() if "OLDPWD" not in line]
    shown = [Mask([value]).hide(line) for line in printed]
    assert HIDDEN in "".join(shown)
    assert not any(
        piece in line for line in shown for piece in ("HOME an", "quotes", "x1y2z3", "eDF5MnozeDF5")
    )


def test_each_line_of_a_value_is_hidden() -> None:
    mask = Mask(["first line\r\n  second: line\nabc\n\nlast \x1b[31mone"])
    assert mask.hide("> first line <") == f"> {HIDDEN} <"
    assert mask.hide("second: line") == HIDDEN
    assert mask.hide("abc last one") == f"abc {HIDDEN}"


def test_common_and_short_values_are_shown() -> None:
    mask = Mask(["true", "False", "abc", "    ", "", "none", "production", *COMMON_WORDS])
    text = "true False abc     none production dHJ1ZQ=="
    assert mask.hide(text) == text
    assert mask.max_pattern_characters == 0


def test_values_that_overlap_are_hidden_together() -> None:
    mask = Mask(["xxuser", "username123", "user", "username123456"])
    assert mask.hide("a xxusername1234 b") == f"a {HIDDEN}4 b"
    assert mask.hide("username123456username123xxuser") == HIDDEN
    assert mask.hide("usernam") == f"{HIDDEN}nam"


def test_the_longest_value_at_a_position_is_hidden() -> None:
    longest = "".join(f"{number:x}." for number in range(90))
    mask = Mask([longest[:length] for length in range(4, 200, 3)])
    for length in range(4, 199):
        hidden = length - (length - 4) % 3
        assert mask.hide(longest[:length] + "~") == f"{HIDDEN}{longest[hidden:length]}~"


def test_a_value_that_a_replacement_composes_is_hidden() -> None:
    mask = Mask(["abcd", f"{HIDDEN}x", "••••"])
    assert mask.hide("abcdx") == HIDDEN
    assert mask.hide("•abcd") == HIDDEN


def test_values_that_contain_the_placeholder_do_not_hide_one_character_at_a_time() -> None:
    mask = Mask(["secret", f"{HIDDEN}a"])
    assert mask.hide("secretaab") == f"{HIDDEN}b"
    assert mask.hide("secret" + "a" * 5000) == HIDDEN


class _Counted(str):
    """A text that counts how often it is compared with the beginning of a value."""

    comparisons = 0

    def startswith(self, *arguments: Any) -> bool:
        _Counted.comparisons += 1
        return super().startswith(*arguments)


class _CountedLengths(list[int]):
    """The lengths of values. Each one that is read is one more comparison."""

    def __getitem__(self, at: Any) -> Any:
        _Counted.comparisons += 1
        return super().__getitem__(at)


@pytest.mark.parametrize("repeated", [1, 2, 4, 17, 128, 255])
def test_the_cost_of_a_text_does_not_depend_on_the_number_of_values(repeated: int) -> None:
    """Each value is the beginning of the next one, and the text begins all of them again and again."""
    mask = Mask(["a" * length for length in range(4, 257)] + ["a" * 256 + "b"])
    index: Any = mask._patterns
    index._lengths = _CountedLengths(index._lengths)
    text = _Counted(("a" * repeated + "c") * (4000 // repeated))
    _Counted.comparisons = 0
    mask.hide(text)
    # About three times the binary logarithm of 253 values, where a match begins; less elsewhere.
    assert _Counted.comparisons <= 8 * len(text)


@settings(max_examples=EXAMPLES)
@given(
    st.lists(st.text("ab•", min_size=4, max_size=12), min_size=1, max_size=12),
    st.text("ab•", max_size=60),
    st.booleans(),
)
def test_exactly_the_values_are_hidden(values: list[str], text: str, are_many: bool) -> None:
    # Small limits, as if there were many values.
    block, beginnings, recent, at_once = (2, 3, 1, 32) if are_many else (16, 10_000, 64, 2048)
    with patch.multiple(
        pattern_index,
        _BLOCK=block,
        _MAX_BEGINNINGS=beginnings,
        _MAX_RECENT_BLOCKS=recent,
        _SORTED_AT_ONCE=at_once,
    ):
        mask = Mask(values)
        patterns = list(mask._patterns)
        found = [False] * len(text)
        for start, end in mask._find(text):
            found[start:end] = [True] * (end - start)
        partial = mask.find_partial_value(text)
    assert set(values) <= set(patterns) and patterns == sorted(set(patterns))
    covered = [False] * len(text)
    for pattern in patterns:
        for start in range(len(text)):
            if text.startswith(pattern, start):
                covered[start : start + len(pattern)] = [True] * len(pattern)
    assert found == covered
    begun = [
        start
        for start in range(len(text))
        if any(len(each) > len(text) - start and each.startswith(text[start:]) for each in patterns)
    ]
    assert partial == min(begun, default=len(text))


def test_many_short_values_take_little_memory() -> None:
    """Each line has 13 forms, and one with wide characters must not make all others wide."""
    values = ["\n".join(f"é'<{(number * 31 + line) * 7919:x}" for line in range(23)) for number in range(60)]
    values.append("correct 🐎 battery")
    size = sum(len(value.encode()) for value in values)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        mask = Mask(values)
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert mask.memory_bytes < 90 * size and 0.7 * used < mask.memory_bytes < 1.4 * used
    assert {mask.hide(line) for value in values for line in value.split("\n")} == {HIDDEN}


def test_values_are_sorted_in_short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = 0

    class Bucket(list[str]):
        def sort(self, **named: Any) -> None:
            nonlocal longest
            longest = max(longest, len(self))
            super().sort(**named)

    monkeypatch.setattr(pattern_index, "list", Bucket, raising=False)
    texts = {f"{number * 7919 % 100_003:x}" for number in range(40_000)}
    assert list(pattern_index.iterate_sorted(texts)) == sorted(texts)
    assert 0 < longest < 10_000


def test_an_unfinished_text_hides_the_beginning_of_a_value() -> None:
    mask = Mask(["correct horse battery staple", "horsemen"])
    assert mask.hide("say correct hor", unfinished=True) == f"say {HIDDEN}"
    assert mask.hide("say correct hor") == "say correct hor"
    assert mask.hide("say cor", unfinished=True) == "say cor"
    assert mask.find_partial_value("say cor") == 4
    assert mask.find_partial_value("say") == 3
    mask = Mask(["pass+word", "😀😀😀😀"])
    for end in (
        r"pass\u002B",
        r"pass\u00",
        "pass\\",
        r"pass\\u002B",
        r"pass\\u002",
        r"\uD83D\uDE00\ud83d\ud",
    ):
        assert mask.hide(f"say {end}", unfinished=True) == f"say {HIDDEN}", end
        assert mask.find_partial_value(f"say {end}") == 4
    # A character of a value may follow.
    assert mask.hide("say \\", unfinished=True) == "say \\"
    assert mask.find_partial_value("say \\") == 4
    assert Mask([]).find_partial_value("say \\") == 5


def test_a_block_of_a_long_value_is_hidden() -> None:
    value = "".join(f"{number:x}." for number in range(20_000))
    mask = Mask([value])
    assert mask.max_pattern_characters == 256
    assert mask.hide(value) == HIDDEN
    assert mask.hide(f"<{value[512:1024]}>") == f"<{HIDDEN}>"


@given(
    values=st.lists(
        st.text(st.characters(codec="utf-8"), max_size=600) | st.text("ab:/\\'\" ", max_size=9), max_size=8
    ),
    around=st.text("ab:/\\ ", max_size=5),
    data=st.data(),
)
def test_no_value_is_shown(values: list[str], around: str, data: st.DataObject) -> None:
    printed = around.join(data.draw(st.permutations(values)))
    shown = [Mask(values).hide(line) for line in printed.splitlines()]
    for value in values:
        if (
            len(value) >= 4
            and value.strip()
            and value.strip().lower() not in COMMON_WORDS
            and value.isprintable()
        ):
            assert not any(value in line for line in shown)
