"""Documents of plain values, each with its line number."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_domain.documents.faults import MAX_FAULTS, DocumentFault
from control_domain.documents.strict_yaml import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    Node,
    read_yaml,
)


def _plain(node: Node) -> Any:
    if isinstance(node.value, dict):
        return {key: _plain(one) for key, one in node.value.items()}
    return [_plain(one) for one in node.value] if isinstance(node.value, tuple) else node.value


def _lined(node: Node) -> Any:
    """Return nested `[line, value]` pairs."""
    if isinstance(node.value, dict):
        return [node.line, {key: _lined(one) for key, one in node.value.items()}]
    return [
        node.line,
        [_lined(one) for one in node.value] if isinstance(node.value, tuple) else node.value,
    ]


def _faults(text: str) -> list[str]:
    with pytest.raises(DocumentFault) as refused:
        read_yaml(text)
    return [str(fault) for fault in refused.value.faults]


def test_each_value_has_the_line_of_its_key_or_item() -> None:
    text = "# c\na: 1\nb:\n  - x\n  -\n    y: |\n      z\n\nc: {d: e,\n  f: }\n"
    c = [9, {"d": [9, "e"], "f": [10, None]}]
    assert _lined(read_yaml(text)) == [
        2,
        {"a": [2, 1], "b": [3, [[4, "x"], [6, {"y": [6, "z\n"]}]]], "c": c},
    ]


def test_an_alias_has_its_own_line() -> None:
    assert _lined(read_yaml("a: &x {b: 1}\nc:\n- *x\n")) == [
        1,
        {"a": [1, {"b": [1, 1]}], "c": [2, [[3, {"b": [1, 1]}]]]},
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_each_kind_of_line_end_counts_once(end: str) -> None:
    assert _faults(end.join(("a: 1", "", "a: 2", ""))) == ["line 3: a: is given already on line 1"]


_TAKEN: dict[str, tuple[str, Any]] = {
    "a byte order mark first": ("\ufeffa: 1", {"a": 1}),
    "JSON": ('{"a": [1, "\\u00e9", null, true]}', {"a": [1, "é", None, True]}),
    "YAML 1.2": ("%YAML 1.2\n---\na: 1\n...\n", {"a": 1}),
    "core tags": ("!!map {a: !!str 1, b: !!seq [!!int '2']}", {"a": "1", "b": [2]}),
    "aliases": ("a: &x [1, 2]\nb: *x\nc: &x 3\nd: *x", {"a": [1, 2], "b": [1, 2], "c": 3, "d": 3}),
    "an alias as key": ("a: &x b\n*x : 1", {"a": "b", "b": 1}),
    "a merge key in quotes": ("'<<': 1", {"<<": 1}),
    "an empty key in quotes": ("'': 1", {"": 1}),
    "a scalar": ("yes", "yes"),
    "keys in other cases": ("a: 1\nA: 2", {"a": 1, "A": 2}),
    "as deep as can be": ("[" * MAX_DEPTH + "]" * MAX_DEPTH, None),
    "as long as can be": ("a: 1" + " " * (MAX_CHARACTERS - 4), {"a": 1}),
    "ten times as large": ("[&x [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]" + ",*x" * 10 + "]", None),
    "characters of all planes": ("a: 東京 🚀 \u00a0\tx", {"a": "東京 🚀 \u00a0\tx"}),
    "escapes": (r'a: "\x01\0\L\u2028\t"', {"a": "\x01\0\u2028\u2028\t"}),
}  # fmt: skip


@pytest.mark.parametrize(("text", "value"), _TAKEN.values(), ids=_TAKEN.keys())
def test_valid_documents_are_parsed(text: str, value: Any) -> None:
    read = _plain(read_yaml(text))
    assert value is None or read == value


_NOT_TEXT = "a key is not text: write it in quotes"
_MERGE = "merge keys (<<) are not supported: write the merged keys instead"


def _tagged(tag: str) -> str:
    return f"has the tag {tag!r}: only tags of YAML's core schema are allowed; remove it"


_REFUSED: dict[str, tuple[str, list[str]]] = {
    "nothing": ("", ["line 1: is empty"]),
    "comments": ("\n# a\n", ["line 1: is empty"]),
    "two documents": ("a: 1\n---\nb: 1", ["line 2: a second document begins here: only one is allowed"]),
    "two after an end": ("a: 1\n...\n---\nb: 1", ["line 3: a second document begins here: only one is allowed"]),
    "YAML 1.1": ("%YAML 1.1\n---\na: yes", ["line 1: is not YAML 1.2: remove the %YAML line"]),
    "a key twice": ("a: 1\nb: {c: 1,\n c: 2}\n'a': 3", [
        "line 3: b.c: is given already on line 2", "line 4: a: is given already on line 1"]),
    "a key twice by an alias": ("&x a: 1\n*x : 2", ["line 2: a: is given already on line 1"]),
    "a number as key": ("a:\n  1: x\n  1.5: x", [f"line {n}: a: {_NOT_TEXT}" for n in (2, 3)]),
    "a truth as key": ("true: x\nnull: x\n~: x", [f"line {n}: {_NOT_TEXT}" for n in (1, 2, 3)]),
    "a collection as key": ("? [a]\n: x\n? {b: c}\n: [1: x]\n", [
        f"line 1: {_NOT_TEXT}", f"line 3: {_NOT_TEXT}", f"line 4: [0]: {_NOT_TEXT}"]),
    "no key": ("?\n: x", [f"line 1: {_NOT_TEXT}"]),
    "a merge": ("a: &x {b: 1}\nc:\n  <<: *x\n  d: 1", [f"line 3: c: {_MERGE}"]),
    "tags": ("a: !foo 1\nb: !!binary aGk=\nc: !!timestamp 2026-01-01\nd: !!python/object:os.system {}\ne: ! 1", [
        "line 1: a: " + _tagged("!foo"), "line 2: b: " + _tagged("!!binary"), "line 3: c: " + _tagged("!!timestamp"),
        "line 4: d: " + _tagged("!!python/object:os.system"), "line 5: e: " + _tagged("!")]),
    "tags of other collections": ("a: !!seq {}\nb: !!set {x}\nc: !!map [\n!!str []]", [
        "line 1: a: " + _tagged("!!seq"), "line 2: b: " + _tagged("!!set"), "line 3: c: " + _tagged("!!map"),
        "line 4: c[0]: " + _tagged("!!str")]),
    "a tag under another name": ("%TAG !e! tag:yaml.org,2002:\n---\na: !e!binary aGk=", [
        "line 3: a: " + _tagged("!!binary")]),
    "a value that does not match its tag": ("a: !!int x\n!!int y: 1", [
        "line 1: a: has the tag !!int but is none", "line 2: has the tag !!int but is none"]),
    "an anchor in itself": ("a: &x\n  - *x", ["line 2: a[0]: the anchor 'x' holds itself"]),
    "no anchor": ("a: *x\nb: &x 1", ["line 1: a: there is no anchor 'x' before this alias"]),
    "too deep": ("a:\n " + "[" * MAX_DEPTH, [
        "line 2: a" + "[0]" * (MAX_DEPTH - 1) + ": is nested deeper than 32 levels"]),
    "too deep by an alias": (f"a: &x {'[' * 20}{']' * 20}\nb: {'[' * 12}*x{']' * 12}", [
        "line 2: b" + "[0]" * 12 + ": is nested deeper than 32 levels"]),
    "too long": ("a: 1" + "\n" * 49_997, ["line 1: has more than 50,000 characters"]),
    "a control character": ("a: 1\nb: \x1b[31m", ["line 2: the character U+001B is not allowed"]),
    "NUL": ("a: 1\0", ["line 1: the character U+0000 is not allowed"]),
    "a line separator": ("a: 1\n\u2028", ["line 2: the character U+2028 is not allowed"]),
    "NEL": ("a: 1\u0085b: 2", ["line 1: the character U+0085 is not allowed"]),
    "half a pair": ("a: \ud800", ["line 1: the character U+D800 is not allowed"]),
    "a mark in between": ("a: 1\nb: \ufeff", ["line 2: the character U+FEFF is not allowed"]),
    "no YAML": ("a: 1\nb: c: d", ["line 2: is no YAML: mapping values are not allowed in this context"]),
    "a tab": ("a:\n\t- b", [
        "line 2: is no YAML: found character that cannot start any token, while scanning for the next token that "
        "begins on line 2"]),
    "an open quote": ('a: 1\nb: "c\n\n\n', [
        "line 2: is no YAML: found unexpected end of stream, while scanning a quoted scalar that begins on line 2"]),
    "an open bracket": ("a: 1\nb: [c,\n", [
        "line 2: is no YAML: did not find expected node content, while parsing a flow node that begins on line 2"]),
    "faults before no YAML": ("a: !x 1\na: 1\nb: ]", [
        "line 1: a: " + _tagged("!x"),
        "line 2: a: is given already on line 1",
        "line 3: is no YAML: did not find expected node content, while parsing a block node that begins on line 3"]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "faults"), _REFUSED.values(), ids=_REFUSED.keys())
def test_invalid_documents_are_refused_with_their_line(text: str, faults: list[str]) -> None:
    assert _faults(text) == faults


def test_only_the_first_faults_are_reported() -> None:
    assert _faults("a: 1\n" * 100) == [
        f"line {n}: a: is given already on line 1" for n in range(2, MAX_FAULTS + 2)
    ]


# JSON escapes characters outside the BMP as surrogate pairs, which libyaml refuses.
_json_texts = st.text(
    st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"], exclude_characters="\x7f"), max_size=9
)
_json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | _json_texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_json_texts, inner, max_size=4),
    max_leaves=20,
)


@given(_json_values)
def test_json_is_parsed_with_its_types(value: Any) -> None:
    assert _plain(read_yaml(json.dumps(value))) == value


@given(
    st.text(st.characters(codec="utf-8"), max_size=60) | st.text("[]{}:,-?&*!|>'\"#%@ \n\tab<1", max_size=60)
)
def test_arbitrary_text_is_parsed_or_refused(text: str) -> None:
    try:
        _plain(read_yaml(text))
    except DocumentFault as error:
        assert error.faults
        lines = 1 + text.count("\n") + text.count("\r")
        assert all(1 <= fault.line <= lines for fault in error.faults)
        assert str(error).isprintable()
