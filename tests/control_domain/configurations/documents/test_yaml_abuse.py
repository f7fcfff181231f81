"""Hostile and tricky YAML for the readers of both documents: each text gives the right value, or a fault at the right
place."""

import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from control_api.requests.json_body import JsonFields
from control_domain.configurations.documents.read_document import read_configuration
from control_domain.configurations.resources import Secret
from control_domain.documents.faults import DocumentFault
from control_domain.documents.strict_yaml import MAX_CHARACTERS, MAX_VALUES
from control_domain.workflows.read_workflow import read_workflow
from pipeline_contracts.errors import InvalidInput
from tests.support.hostile_documents import (
    CONFIGURATION,
    KINDS,
    LARGE,
    TRICKY,
    WORKFLOW,
    Faults,
    fill_faults,
    fill_text,
)

# Each text takes a fraction of a second. A reader with quadratic or worse cost would take minutes.
pytestmark = pytest.mark.timeout(180)

_MOST_BYTES = 20_000_000
_READERS: Mapping[str, Callable[[str], Any]] = {
    WORKFLOW: read_workflow,
    CONFIGURATION: lambda text: read_configuration(text, {}, digest=lambda value: value),
}


def _read(kind: str, text: str) -> list[str]:
    """Return the faults that the reader reports."""
    try:
        _READERS[kind](text)
    except DocumentFault as error:
        return [str(fault) for fault in error.faults]
    return []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("text", "faults"), TRICKY.values(), ids=TRICKY.keys())
def test_tricky_texts_are_read_or_refused(text: str, faults: Faults, kind: str) -> None:
    assert _read(kind, fill_text(text, kind)) == fill_faults(faults, kind)


# A text of a document on its fifth line.
_PLACES = {
    WORKFLOW: (
        "triggers.skip",
        "version: 1\nprocesses: {a: {command: x}}\ntriggers:\n  # one\n  skip: TEXT\n",
    ),
    CONFIGURATION: (
        "environments.a.variables.X",
        "version: 2\nenvironments:\n  a:\n    variables:\n      X: TEXT\n",
    ),
}
_NUMBER = "must be text, not a whole number: write it in quotes"
_FRACTION = "must be text, not a number: write it in quotes"
_NOTHING = "must be text, not nothing: write it in quotes"
_TRUTH = "must be text, not true or false: write it in quotes"
_LIST = "must be text, not a list: write it in quotes"
_BREAK = "holds a line break, which is not allowed here"
_TOO_LARGE = "is a whole number that does not fit into 64 bits: write it in quotes"


@dataclass(frozen=True)
class _No:
    """The fault of the text at its place."""

    why: str


# The text, and the result of the workflow reader; then the result of the configuration reader if it differs.
_TEXTS: Mapping[str, tuple[str | _No, ...]] = {
    **{
        text: (text,)
        for text in ("no", "NO", "yes", "on", "y", "1_000", "0b11", "3:30", "190:20:30", "2026-01-01")
    },
    **{
        text: (text,)
        for text in ("2026-01-01T00:00:00Z", "=", "<<", "nUll", "tRUE", "1.2.3", "0o8", ".Nan", "٣")
    },
    **{
        number: (_No(_NUMBER),)
        for number in ("017", "0o17", "0x1F", "-1", "9223372036854775807", "!!int '1'")
    },
    **{number: (_No(_TOO_LARGE),) for number in ("9223372036854775808", "9" * 40_000, "0x" + "f" * 40_000)},
    **{
        number: (_No(_FRACTION),)
        for number in ("1e3", "1.", ".5", ".inf", "-.INF", ".nan", "1e999", "!!float 1")
    },
    **{nothing: (_No(_NOTHING),) for nothing in ("", "~", "null", "NULL", "# nothing", "!!null ''", "&x")},
    **{boolean: (_No(_TRUTH),) for boolean in ("true", "False", "!!bool 'TRUE'")},
    "!!int x": (_No("has the tag !!int but is none"),),
    "!!bool yes": (_No("has the tag !!bool but is none"),),
    "!!str 017": ("017",),
    "'~'": ("~",),
    "''": (_No("has 0 characters: 1 to 100 are allowed"), ""),
    "[a]": (_No(_LIST),),
    "{keep: true}": (_No("must be text, not a mapping"), "kept"),
    "*x": (_No("there is no anchor 'x' before this alias"),),
    "&x a": ("a",),
    "a" * 100: ("a" * 100,),
    "a" * 101: (_No("has 101 characters: 1 to 100 are allowed"), "a" * 101),
    "a" * 49_000: (_No("has 49,000 characters: 1 to 100 are allowed"), "a" * 49_000),
    "a #b": ("a",),
    "a#b": ("a#b",),
    "'it''s'": ("it's",),
    "a\tb": (_No("holds the character U+0009, which is not allowed here"), "a\tb"),
    "a\n        b": ("a b",),
    "a\n\n        b": (_No(_BREAK), "a\nb"),
    "'a\n\n\n        b'": (_No(_BREAK), "a\n\nb"),
    '"a\\\n        b"': ("ab",),
    "|\n        a\n         b": (_No(_BREAK), "a\n b\n"),
    "|-\n        a": ("a",),
    "|+\n        a\n\n": (_No(_BREAK), "a\n\n\n"),
    ">\n        a\n        b": (_No(_BREAK), "a b\n"),
    ">-\n        a\n        b": ("a b",),
    '"\\0"': (
        _No("holds the character U+0000, which is not allowed here"),
        _No("a value cannot contain NUL"),
    ),
    '"\\e[2J"': (_No("holds the character U+001B, which is not allowed here"), "\x1b[2J"),
    '"\\N\\L"': (_No("holds the character U+0085, which is not allowed here"), "\x85\u2028"),
    '"\\x41\\u00e9\\U0001F680"': ("Aé🚀",),
    "🚀 e\u0301 \u00a0": ("🚀 e\u0301 \u00a0",),
    "a\u202eb\u2066": ("a\u202eb\u2066",),
    "$x $ $$": ("$x $ $$",),
    "$${x}": ("$${x}", "${x}"),
    "${x": (
        "${x",
        _No("contains a ${ that begins no binding: write a binding as ${name}, and a literal ${ as $${"),
    ),
}


def _read_text(kind: str, text: str) -> str | None:
    if kind == WORKFLOW:
        return read_workflow(text).triggers.skip
    value = _READERS[kind](text).resources[0].fields["variables.X"]
    return value.value if isinstance(value, Secret) else "kept"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("written", "expected"), _TEXTS.items(), ids=lambda one: ascii(one)[:30])
def test_a_scalar_is_read_as_this_text_or_refused(
    written: str, expected: Sequence[str | _No], kind: str
) -> None:
    place, document = _PLACES[kind]
    one = expected[0] if kind == WORKFLOW else expected[-1]
    text = document.replace("TEXT", written)
    if isinstance(one, _No):
        assert _read(kind, text) == [f"line 5: {place}: {one.why}"]
    else:
        assert _read_text(kind, text) == one


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("written", ["a: b", "- a", "@a", "%a", "`a"])
def test_values_that_are_no_texts_are_refused(written: str, kind: str) -> None:
    (result,) = _read(kind, _PLACES[kind][1].replace("TEXT", written))
    assert result.startswith("line 5: is no YAML: ")


@pytest.mark.parametrize("kind", KINDS)
def test_the_longest_text_and_one_character_more(kind: str) -> None:
    text = fill_text("version: VERSION\nREST\n#", kind)
    text += "🚀" * (MAX_CHARACTERS - len(text))
    assert len(text) == 50_000
    assert _read(kind, text) == []
    assert _read(kind, text + "x") == ["line 1: has more than 50,000 characters"]
    # A byte order mark does not count.
    assert _read(kind, f"\ufeff{text}") == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_most_values_and_one_more(kind: str) -> None:
    # The keys and values of both lines, and the list.
    items = MAX_VALUES - {WORKFLOW: 11, CONFIGURATION: 9}[kind]
    text = fill_text("version: VERSION\nREST\na: [ITEMS]", kind)
    assert _read(kind, text.replace("ITEMS", "1," * items)) == fill_faults(["line 3: a: TOP"], kind)
    message = f"line 3: a[{items}]: is one of more than 10,000 values, with those that aliases stand for"
    assert _read(kind, text.replace("ITEMS", "1," * (items + 1))) == [message]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("levels", ["[{}]", "{{a: {}}}"])
def test_the_deepest_nesting_and_one_level_more(levels: str, kind: str) -> None:
    def nest(depth: int) -> str:
        value = "1"
        for _ in range(depth):
            value = levels.format(value)
        return fill_text(f"version: VERSION\nREST\na: {value}", kind)

    assert _read(kind, nest(31)) == fill_faults(["line 3: a: TOP"], kind)
    path = "a" + ("[0]" if levels[0] == "[" else ".a") * 31
    assert _read(kind, nest(32)) == [f"line 3: {path}: is nested deeper than 32 levels"]


_BODIES = {
    "bytes that are not UTF-8": (b'{"text": "a\xff"}', "text"),
    "half a pair in bytes": (b'{"text": "\xed\xa0\x80"}', "text"),
    "half a pair in an escape": (b'{"text": "\\ud83d"}', ""),
    "halves the other way round": (b'{"text": "\\ude80\\ud83d"}', ""),
    "an overlong NUL": (b'{"text": "\xc0\x80"}', "text"),
    "UTF-16": ('{"text": ""}'.encode("utf-16"), ""),
    "a byte order mark": (b'\xef\xbb\xbf{"text": ""}', ""),
}


@pytest.mark.parametrize(("body", "field"), _BODIES.values(), ids=_BODIES.keys())
def test_a_body_without_text_is_refused(body: bytes, field: str) -> None:
    fields = JsonFields({"text": (str, "must be a string of YAML", True)}, "Correct it.")
    with pytest.raises(InvalidInput) as refused:
        fields.read(body, lambda name, value: True)
    assert [error.field for error in refused.value.errors] == [field]


@pytest.mark.parametrize("kind", KINDS)
def test_escapes_in_the_body_are_decoded(kind: str) -> None:
    text = fill_text("version: VERSION\nREST\na\0: 1", kind)
    fields = JsonFields({"text": (str, "must be a string of YAML", True)}, "Correct it.")
    read = fields.read(msgspec.json.encode({"text": text}), lambda name, value: True)["text"]
    assert _read(kind, read) == ["line 3: the character U+0000 is not allowed"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("text", "faults"), LARGE.values(), ids=LARGE.keys())
def test_large_documents_take_little_memory(text: str, faults: Faults, kind: str) -> None:
    text = fill_text(text, kind)
    tracemalloc.start()
    try:
        assert _read(kind, text) == fill_faults(faults, kind)
        assert tracemalloc.get_traced_memory()[1] < _MOST_BYTES
    finally:
        tracemalloc.stop()
