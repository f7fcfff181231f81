"""Envelopes are split into their items; broken ones are refused with the reason."""

from typing import Any

import pytest

from ingest_edge.sentry.envelope import MAX_ITEMS, read_envelope, read_json
from pipeline_contracts.errors import InvalidInput, PayloadTooLarge

SPLIT: list[tuple[str, bytes, list[tuple[str, bytes]]]] = [
    ("header alone", b"{}", []),
    ("header with newline", b"{}\n", []),
    ("trailing empty lines", b"{}\n\n\n", []),
    ("with length", b'{}\n{"type":"event","length":2}\n{}\n', [("event", b"{}")]),
    ("with length at the end", b'{}\n{"type":"event","length":2}\n{}', [("event", b"{}")]),
    ("newlines inside of the length", b'{}\n{"type":"a","length":5}\n{\n\n }\n', [("a", b"{\n\n }")]),
    ("without length", b'{}\n{"type":"event"}\n{"a":1}\n', [("event", b'{"a":1}')]),
    ("without length at the end", b'{}\n{"type":"event"}\n{"a":1}', [("event", b'{"a":1}')]),
    ("without payload", b'{}\n{"type":"event"}', [("event", b"")]),
    (
        "empty payload by length",
        b'{}\n{"type":"attachment","length":0}\n\n{"type":"x"}\ny',
        [("attachment", b""), ("x", b"y")],
    ),
    ("empty payload at the end", b'{}\n{"type":"attachment","length":0}', [("attachment", b"")]),
    (
        "empty lines between items",
        b'{}\n\n{"type":"a"}\n1\n\n\r\n{"type":"b"}\n2\n',
        [("a", b"1"), ("b", b"2")],
    ),
    ("null length", b'{}\n{"type":"a","length":null}\n1\n', [("a", b"1")]),
    ("carriage returns", b'{}\r\n{"type":"a"}\r\n{}\r\n', [("a", b"{}\r")]),
    ("binary payload", b'{}\n{"type":"a","length":3}\n\x00\n\xff\n', [("a", b"\x00\n\xff")]),
    ("unknown members", b'{"x":[1]}\n{"type":"a","y":{}}\n1', [("a", b"1")]),
]

REFUSED: list[tuple[str, bytes, str]] = [
    ("empty body", b"", "the header of the envelope is not valid JSON"),
    ("no JSON", b"hello", "the header of the envelope is not valid JSON"),
    ("list as header", b"[]\n", "the header of the envelope is not a JSON object"),
    ("NaN", b'{"a":NaN}\n', "the header of the envelope is not valid JSON"),
    ("invalid UTF-8", b'{"a":"\xff"}\n', "the header of the envelope is not valid JSON"),
    (
        "deep header",
        b'{"a":' + b"[" * 30_000 + b"]" * 30_000 + b"}\n",
        "the header of the envelope is not valid JSON",
    ),
    (
        "long header",
        b'{"a":"' + b"x" * 70_000 + b'"}\n',
        "the header of the envelope is longer than 65536 bytes",
    ),
    ("broken item header", b'{}\n{"type":', "the header of item 1 is not valid JSON"),
    ("item without type", b'{}\n{"length":2}\n{}\n', "the header of item 1 has no `type`"),
    ("number as type", b'{}\n{"type":7}\n{}\n', "the header of item 1 has no `type`"),
    (
        "truncated payload",
        b'{}\n{"type":"event","length":9}\n{}',
        "item 1 is truncated: its `length` is 9, but 2 bytes follow",
    ),
    (
        "missing payload",
        b'{}\n{"type":"event","length":9}',
        "item 1 is truncated: its `length` is 9, but 0 bytes follow",
    ),
    (
        "wrong length",
        b'{}\n{"type":"event","length":1}\n{}\n',
        "item 1 does not end after its `length` of 1 bytes",
    ),
    (
        "negative length",
        b'{}\n{"type":"event","length":-1}\n{}\n',
        "the `length` of item 1 is not a number of bytes",
    ),
    (
        "text as length",
        b'{}\n{"type":"event","length":"2"}\n{}\n',
        "the `length` of item 1 is not a number of bytes",
    ),
    (
        "huge length",
        b'{}\n{"type":"a","length":99999999999999999999}\n{}\n',
        "the `length` of item 1 is not a number",
    ),
    (
        "long item header",
        b'{}\n{"type":"a","x":"' + b"x" * 4080 + b'"}\n',
        "the header of item 1 is longer than 4096 bytes",
    ),
    ("second item", b'{}\n{"type":"a"}\n1\nnope\n', "the header of item 2 is not valid JSON"),
]


def test_items_are_split() -> None:
    for name, body, expected in SPLIT:
        items = read_envelope(body).items
        assert [(item.type, item.payload) for item in items] == expected, name


def test_broken_envelopes_are_refused() -> None:
    for name, body, reason in REFUSED:
        with pytest.raises(InvalidInput) as raised:
            read_envelope(body)
        assert reason in raised.value.detail, name


class _CountedBytes(bytes):
    """Bytes that count how often they are sliced."""

    slices = 0

    def __getitem__(self, index: Any) -> Any:
        self.slices += 1
        return super().__getitem__(index)


def test_empty_lines_take_no_step_each() -> None:
    few, many = (_CountedBytes(b'{}\n{"type":"a"}\n1\n' + b"\r\n" * lines) for lines in (1, 10_000))
    assert read_envelope(few) == read_envelope(many)
    assert few.slices == many.slices < 20


def test_of_headers_only_the_type_is_kept() -> None:
    [item] = read_envelope(b'{}\n{"type":"a","x":"' + b"x" * 4070 + b'"}\n1').items
    assert item == ("a", b"1")


def test_number_of_items_is_limited() -> None:
    item = b'{"type":"a"}\n1\n'
    assert len(read_envelope(b"{}\n" + item * MAX_ITEMS).items) == MAX_ITEMS
    with pytest.raises(PayloadTooLarge):
        read_envelope(b"{}\n" + item * (MAX_ITEMS + 1))


def test_lone_surrogates_are_replaced() -> None:
    assert read_json(rb'{"a":"\ud83d \ud83d\ude00"}') == {"a": "\ufffd \U0001f600"}
    with pytest.raises(ValueError):
        read_json(b'"\\ud83d')
