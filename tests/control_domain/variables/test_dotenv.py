"""Variables as text: valid lines, and the faults of invalid ones."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_domain.variables.dotenv import (
    MAX_TEXT_BYTES,
    MAX_VARIABLE_BYTES,
    MAX_VARIABLES,
    read_dotenv,
    write_dotenv,
)
from pipeline_contracts.errors import FieldError, InvalidInput
from tests.support.examples import EXAMPLES

_BAD_KEY = "a name has letters, digits and _, no digit first, and at most 255 characters"
_NO_EQUALS = "there is no ="
_SINGLE_OPEN = "the single quote is not closed on its line"
_DOUBLE_OPEN = "the double quote is not closed; the following lines were not read"
_AFTER = "after the closing quote, only a comment with a blank before its # is allowed"
_NUL = "a value cannot contain NUL"
_SURROGATE = "the value contains half a surrogate pair, which UTF-8 cannot encode"
_TOO_LONG = "name, = and value together have more than 131071 bytes"
_LONGEST = "x" * (MAX_VARIABLE_BYTES - 2)

# name: (text, the variables or the faults)
_CASES: dict[str, tuple[str, dict[str, str] | list[str]]] = {
    "nothing": ("", {}),
    "a BOM alone": ("\ufeff", {}),
    "empty lines": ("\n \n\t\n", {}),
    "comment lines": ("# a\n  # b=c\n#\n", {}),
    "plain": ("A=1\nB=two words\n", {"A": "1", "B": "two words"}),
    "no line end at the end": ("A=1", {"A": "1"}),
    "BOM": ("\ufeffA=1\n", {"A": "1"}),
    "a BOM inside is a character": ("A=\ufeff1\n\ufeffB=2", [f"line 2: {_BAD_KEY}"]),
    "CRLF": ("A=1\r\n\r\nB=2\r\n", {"A": "1", "B": "2"}),
    "CR": ("A=1\rB=2\r", {"A": "1", "B": "2"}),
    "mixed line ends are counted once": ("A=1\r\n\rB=2\n\rbad", [f"line 5: {_NO_EQUALS}"]),
    "other separators are characters": ("A=1\u20282\x0b3\x854", {"A": "1\u20282\x0b3\x854"}),
    "blanks round name and value": (" \tA \t=\t b c \t\n", {"A": "b c"}),
    "a no-break space is not a blank": ("A=\u00a0b\u00a0", {"A": "\u00a0b\u00a0"}),
    "a no-break space before a name": ("\u00a0A=b", [f"line 1: {_BAD_KEY}"]),
    "empty value": ("A=\nB= \nC=''\nD=\"\"", {"A": "", "B": "", "C": "", "D": ""}),
    "order is kept": ("B=1\nA=2\nC=3", {"B": "1", "A": "2", "C": "3"}),
    "export": ("export A=1\n export \t B=2", {"A": "1", "B": "2"}),
    "a variable of name export": ("export=1\nexport export =2", ["line 2: export is given already on line 1"]),
    "export without a name": ("export A", [f"line 1: {_NO_EQUALS}"]),
    "exported is not export": ("exported A=1", [f"line 1: {_BAD_KEY}"]),
    "a line without an equals sign": ("A\nA=1\nB", [f"line {n}: {_NO_EQUALS}" for n in (1, 3)]),
    "equals signs in a value": ("A=b=c==", {"A": "b=c=="}),
    "comment after a value": ("A=b # c\nB=b\t#c\nC= # c", {"A": "b", "B": "b", "C": ""}),
    "hash in a value": ("A=a#b\nB=#b\nC=a# b #c", {"A": "a#b", "B": "#b", "C": "a# b"}),
    "plain has no escapes": (r"A=C:\new\table\\", {"A": r"C:\new\table" + "\\\\"}),
    "nothing is expanded": ("A=$X\nB=${A}\nC=\"$A ${A}\"\nD='$A'", {"A": "$X", "B": "${A}", "C": "$A ${A}", "D": "$A"}),
    "quotes inside a plain value": ("A=it's\nB=say \"x\"", {"A": "it's", "B": 'say "x"'}),
    "single quotes": ("A=' a # b '\nB='\"'", {"A": " a # b ", "B": '"'}),
    "single quotes have no escapes": (r"A='\n\\$'", {"A": r"\n\\$"}),
    "a backslash before the single quote": (r"A='\'", {"A": "\\"}),
    "double quotes": ("A=\" a # b ' \"", {"A": " a # b ' "}),
    "escapes": (r'A="\n\r\t\\\"\$"', {"A": '\n\r\t\\"$'}),
    "pairs that are not escapes": (r'A="\a\N\'\0\u0041\ "', {"A": r"\a\N\'\0\u0041" + "\\ "}),
    "escaped backslashes before n and quote": (r'A="\\n\\"', {"A": r"\n" + "\\"}),
    "several lines": ('A="one\n  two # no comment\n\nB=3"\nC=4', {"A": "one\n  two # no comment\n\nB=3", "C": "4"}),
    "several lines with CRLF": ('A="one\r\ntwo\rthree"\r\nB=1', {"A": "one\ntwo\nthree", "B": "1"}),
    "a backslash at a line's end stays": ('A="one\\\ntwo"', {"A": "one\\\ntwo"}),
    "lines after several lines are counted": ('A="1\n2\n3"\n\nbad', [f"line 5: {_NO_EQUALS}"]),
    "comments after quotes": ("A='b' # c'\nB=\"b\"\t# c\"\nC='b'  ", {"A": "b", "B": "b", "C": "b"}),
    "a hash right after quotes": ("A='b'#c\nB=\"b\"#", [f"line 1: {_AFTER}", f"line 2: {_AFTER}"]),
    "text after quotes": ("A='b'c\nB=\"b\" c\nC=''''", [f"line {n}: {_AFTER}" for n in (1, 2, 3)]),
    "a quote missing at a line's end": ('A="b\nB="c"\nC="d"', [f"line 1: {_AFTER}"]),
    "unclosed single quote": ("A='b\nB=c'\nC='", [f"line 1: {_SINGLE_OPEN}", f"line 3: {_SINGLE_OPEN}"]),
    "unclosed double quote": ('A=1\nB="b\nbad\nworse', [f"line 2: {_DOUBLE_OPEN}"]),
    "a double quote closed by an escape": ('A="b\\"', [f"line 1: {_DOUBLE_OPEN}"]),
    "a backslash at the very end": ('A="b\\', [f"line 1: {_DOUBLE_OPEN}"]),
    "no equals sign": ("A=1\nsecret\n B ", [f"line 2: {_NO_EQUALS}", f"line 3: {_NO_EQUALS}"]),
    "no name": ("=1", [f"line 1: {_BAD_KEY}"]),
    "names": ("_=1\na_B9=2\n__=3", {"_": "1", "a_B9": "2", "__": "3"}),
    "bad names": ("9A=1\nA-B=1\nA.B=1\nA B=1\n'A'=1\nÅ=1\nA\0=1", [f"line {n}: {_BAD_KEY}" for n in range(1, 8)]),
    "the longest name": ("A" * 255 + "=1", {"A" * 255: "1"}),
    "a name too long": ("A" * 256 + "=1", [f"line 1: {_BAD_KEY}"]),
    "a bad name with several lines": ('a-b="1\nno\n"\nB=2', [f"line 1: {_BAD_KEY}"]),
    "a line with two faults": ("a-b='1", [f"line 1: {_BAD_KEY}", f"line 1: {_SINGLE_OPEN}"]),
    "duplicates": ("A=1\n\nA=1\nA=2", [f"line {n}: A is given already on line 1" for n in (3, 4)]),
    "a duplicate of a bad line": ("A='1\nA=1", [f"line 1: {_SINGLE_OPEN}", "line 2: A is given already on line 1"]),
    "names in another case are others": ("A=1\na=2", {"A": "1", "a": "2"}),
    "unicode": ("A=bæ 東京 🚀\nB=\"é\n🚀\"", {"A": "bæ 東京 🚀", "B": "é\n🚀"}),
    "NUL": ("A=a\0b\nB='\0'\nC=\"1\n\0\"\nD=1", [f"line {n}: {_NUL}" for n in (1, 2, 3)]),
    "NUL in a comment": ("# \0\nA=1 # \0", {"A": "1"}),
    "lone surrogates": ("A=\ud800\nB='\udfff'", [f"line {n}: {_SURROGATE}" for n in (1, 2)]),
    "a lone surrogate in a comment": ("A=1 # \ud800", {"A": "1"}),
    "the longest value": (f"A={_LONGEST}", {"A": _LONGEST}),
    "a value too long": (f"A={_LONGEST}x", [f"line 1: {_TOO_LONG}"]),
    "a value too long in bytes": (f"A={_LONGEST[1:]}é", [f"line 1: {_TOO_LONG}"]),
    "a name counts to its value": (f"AB={_LONGEST}", [f"line 1: {_TOO_LONG}"]),
    "the longest text": ("#" * MAX_TEXT_BYTES, {}),
    "a text too long": ("#" * (MAX_TEXT_BYTES + 1), ["the text has more than 262144 bytes"]),
    "a text too long in bytes": ("é" * (MAX_TEXT_BYTES // 2) + "#", ["the text has more than 262144 bytes"]),
    "a text too long of surrogates": ("\ud800" * (MAX_TEXT_BYTES // 3 + 1), ["the text has more than 262144 bytes"]),
    "the most variables": (
        "".join(f"A{n}=\n" for n in range(MAX_VARIABLES)),
        {f"A{n}": "" for n in range(MAX_VARIABLES)},
    ),
    "too many variables": (
        "".join(f"A{n}=\n" for n in range(MAX_VARIABLES + 2)),
        ["line 1001: more than 1000 variables; the following lines were not read"],
    ),
    "more faults than an answer holds": ("x\n" * 60, [f"line {n}: {_NO_EQUALS}" for n in range(1, 51)]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), _CASES.values(), ids=_CASES.keys())
def test_texts_are_parsed_or_refused(text: str, expected: dict[str, str] | list[str]) -> None:
    _check(text, expected)


def _check(text: str, expected: dict[str, str] | list[str]) -> None:
    if isinstance(expected, dict):
        values = read_dotenv(text)
        assert list(values.items()) == list(expected.items())
        return
    with pytest.raises(InvalidInput) as refused:
        read_dotenv(text)
    assert refused.value.errors == tuple(FieldError("variables", fault) for fault in expected)
    assert "Nothing was changed" in refused.value.detail


_HALF = MAX_TEXT_BYTES // 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A=" + " " * (MAX_TEXT_BYTES - 2), {"A": ""}),
        ("A=b" + " " * (MAX_TEXT_BYTES - 5) + " #", {"A": "b"}),
        ("A=" + "\t " * (_HALF - 3) + " x#", {"A": "x#"}),
        ("export" + " " * (MAX_TEXT_BYTES - 9) + "A=1", {"A": "1"}),
        ("export" + " " * (MAX_TEXT_BYTES - 10) + "A-=1", [f"line 1: {_BAD_KEY}"]),
        ("A" * (MAX_TEXT_BYTES - 1) + "=", [f"line 1: {_BAD_KEY}"]),
        (" " * MAX_TEXT_BYTES, {}),
        ("\r" * MAX_TEXT_BYTES, {}),
        ("\r\n" * _HALF, {}),
        ("# \n" * (MAX_TEXT_BYTES // 3), {}),
        ('A="' + "\\" * (MAX_TEXT_BYTES - 3), [f"line 1: {_DOUBLE_OPEN}"]),
        ('A="' + '\\"' * (_HALF - 2), [f"line 1: {_DOUBLE_OPEN}"]),
        ('A="' + "\\a" * (_HALF // 2 - 2) + '"', {"A": "\\a" * (_HALF // 2 - 2)}),
        ('A="' + "\\\\" * (_HALF - 3) + '"', {"A": "\\" * (_HALF - 3)}),
        ('A="' + "\n" * (_HALF - 3) + '" #' + " " * (_HALF - 4), {"A": "\n" * (_HALF - 3)}),
        ('A=""' + " " * (MAX_TEXT_BYTES - 5) + "x", [f"line 1: {_AFTER}"]),
        (
            'A="\n' * (MAX_TEXT_BYTES // 4),
            [f"line {n}: A is given already on line 1" for n in range(3, 103, 2)],
        ),
        ("A=" + "'" * (MAX_TEXT_BYTES - 2), [f"line 1: {_AFTER}"]),
        ("=" * MAX_TEXT_BYTES, [f"line 1: {_BAD_KEY}", f"line 1: {_TOO_LONG}"]),
    ],
    ids=range(19),
)
def test_large_malformed_texts_are_parsed_quickly(text: str, expected: dict[str, str] | list[str]) -> None:
    assert len(text) <= MAX_TEXT_BYTES
    _check(text, expected)


def test_no_fault_contains_a_value() -> None:
    text = "A=1\nhunter2\nhunter2=\nhunter-2=hunter2\nA=hunter2\nB='hunter2\nC='x'hunter2\nD=hunter2\0\nE=\"hunter2"
    with pytest.raises(InvalidInput) as refused:
        read_dotenv(text)
    assert len(refused.value.errors) == 7
    assert "hunter" not in str(refused.value.to_document())


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("", "A=\n"),
        ("postgres://u:p#w@h/d?a=b", "A=postgres://u:p#w@h/d?a=b\n"),
        ('{"a": "b\\n"}', 'A={"a": "b\\n"}\n'),
        ("it's $5", "A=it's $5\n"),
        ("#b", "A=#b\n"),
        ("a #b", 'A="a #b"\n'),
        (" a", 'A=" a"\n'),
        ("a\t", 'A="a\t"\n'),
        ("'a'", "A=\"'a'\"\n"),
        ('"\\"', 'A="\\"\\\\\\""\n'),
        ("BEGIN\nx=\nEND\n", 'A="BEGIN\nx=\nEND\n"\n'),
        ("a\r\nb", 'A="a\\r\nb"\n'),
    ],
)
def test_values_are_written_plain_if_possible(value: str, written: str) -> None:
    assert write_dotenv({"A": value}) == written
    assert read_dotenv(written) == {"A": value}


_KEYS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True)
_CHARACTERS = st.one_of(
    st.sampled_from(" \t\r\n\"'\\#$=nrt\ufeff\u2028"),
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
)


@given(st.dictionaries(_KEYS, st.text(_CHARACTERS, max_size=40), max_size=20))
@settings(max_examples=4 * EXAMPLES, deadline=None)
def test_written_variables_are_read_back(values: dict[str, str]) -> None:
    read = read_dotenv(write_dotenv(values))
    assert list(read.items()) == list(values.items())


_FAULT = re.compile(r"line \d+: (\w+ is given already on line \d+|[a-zA-Z0-9_#=,;' -]+)")


@given(st.text(st.sampled_from("AB_=9 \t\r\n\"'\\#$nx\0\ud800é\ufeff"), max_size=60))
@settings(max_examples=6 * EXAMPLES, deadline=None)
def test_arbitrary_text_is_parsed_or_refused(text: str) -> None:
    try:
        values = read_dotenv(text)
    except InvalidInput as refused:
        assert refused.errors
        assert all(_FAULT.fullmatch(error.message) for error in refused.errors)
    else:
        assert read_dotenv(write_dotenv(values)) == values
