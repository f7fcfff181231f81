"""Changes bodies at random: bytes, tokens, members and values of the document."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.support.accelerator_samples.valid import write_json

_TOKENS = (
    *(
        b"null",
        b"true",
        b"false",
        b"{}",
        b"[]",
        b'""',
        b"0",
        b"-",
        b"-0",
        b"01",
        b"1.",
        b".5",
        b"1e",
        b"1e400",
    ),
    *(
        b"1e308",
        b"1.8e308",
        b"9" * 400,
        b"9223372036854775808",
        b"-9223372036854775809",
        b"18446744073709551616",
    ),
    *(b'"9223372036854775808"', b'"01"', b'" 1"', b'"1e3"', b'"1e400"', b'"inf"', b'"NaN"', b'"-0"', b"NaN"),
    *(
        b"Infinity",
        b"\\",
        b'"',
        b"\\u0000",
        b"\\ud83d",
        b"\\ude00",
        b"\\ud83d\\ude00",
        b"\\uD83D\\u0041",
        b"\\x",
    ),
    *(
        b"\\u00g0",
        b"\xff",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xf0\x9f\x9a",
        b"\xc3\xa9",
        b"\x00",
    ),
    *(
        b"\x1f",
        b"\x7f",
        b"\n",
        b" ",
        b"\x0b",
        b"\xc2\xa0",
        b"\xef\xbb\xbf",
        b",",
        b":",
        b"{",
        b"}",
        b"[",
        b"]",
        b",,",
    ),
    *(
        b"[" * 70,
        b'{"a":' * 70,
        b"[" * 63 + b"]" * 63,
        b"/*x*/",
        b"'",
        b":60Z",
        b":59.999999999Z",
        b"+24:00",
        b"T24",
    ),
    *(
        b"-02-29",
        b"-02-30",
        b"0000-",
        b"9999-12-31",
        b"traceId",
        b"trace_id",
        b"\x08\xff",
        b"\x0a\x00",
        b"\x80" * 10,
    ),
    *(b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x02", b"\x0b\x0c", b"\x12\x7f", b"\xff\xff\xff\xff\x0f"),
)
_MEMBERS = (
    *(
        b'"type":"log",',
        b'"type":"nope",',
        b'"type":null,',
        b'"timestamp":"2026-06-30T23:59:60Z",',
        b'"id":1,',
    ),
    *(b'"events":[],', b'"events":null,', b'"batch_id":"other",', b'"batch_id":null,', b'"batch_id":5,'),
    *(
        b'"status_code":1.0,',
        b'"status_code":"1",',
        b'"attributes":[],',
        b'"payload":null,',
        b'"t\\u0079pe":"job",',
    ),
    *(
        b'"unknown":1e400,',
        b'"unknown":"\\ud83d",',
        b'"key":null,',
        b'"value":null,',
        b'"value":{"x":1},',
        b'"a_b":1,',
    ),
    *(b'"resourceSpans":[],', b'"resourceLogs":null,', b'"resourceMetrics":[{}],', b'"scope_spans":null,'),
    *(
        b'"traceId":"",',
        b'"traceId":null,',
        b'"spanId":"0000000000000000",',
        b'"timeUnixNano":0,',
        b'"flags":"1",',
    ),
    *(
        b'"endTimeUnixNano":1,',
        b'"timeUnixNano":"9223372036854775808",',
        b'"asInt":null,',
        b'"asDouble":1e400,',
    ),
    *(
        b'"stringValue":null,',
        b'"intValue":"1.5",',
        b'"bytesValue":"_-",',
        b'"doubleValue":"1e15",',
        b'"kind":2e0,',
    ),
    *(
        b'"attributes":[null],',
        b'"attributes":{},',
        b'"exemplars":[{}],',
        b'"count":-1,',
        b'"sum":null,',
        b'"sum":{},',
    ),
)
ODD_VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1.5,
        2**31,
        2**32,
        2**63 - 1,
        2**63,
        -(2**63) - 1,
        2**64,
        10**30,
        1e308,
        "@@1e400@@",
    ),
    *(
        "@@-0@@",
        "@@1.0@@",
        "@@1e3@@",
        "",
        "0",
        "-0",
        "1",
        "01",
        "1.0",
        "1e3",
        " 1",
        "+1",
        "NaN",
        "inf",
        "Infinity",
    ),
    *(
        "null",
        "true",
        "9223372036854775807",
        "9223372036854775808",
        "\ud83d",
        "\ude00x",
        "\ud83d\ude00",
        [],
        {},
    ),
    *(
        [None],
        [[]],
        {"": None},
        {"stringValue": "x"},
        {"values": [None]},
        {"values": {}},
        "x" * 101,
        "é" * 100,
    ),
    *(
        "0" * 32,
        "0" * 16,
        "AB" * 16,
        "ab" * 8,
        "g" * 32,
        "a " * 16,
        "YQ",
        "Y===",
        "_-",
        "2026-06-30T23:59:60Z",
    ),
    *("2026-02-29T00:00:00Z", "2024-02-29T00:00:00Z", "2026-01-01T00:00:00", "2026-01-01T00:00:00+2400"),
    *(
        "@@1e308@@",
        "@@1.8e308@@",
        "@@9e308@@",
        "@@1e309@@",
        "1e309",
        "@@0.1e309@@",
        "@@0.01e310@@",
        "@@-10e308@@",
    ),
    *(10**308, 10**309, f"@@{10**309}.5@@", f"@@{10**300}e9@@", str(10**309)),
    *("1900-02-29T00:00:00Z", "2000-02-29T00:00:00Z", "2026-04-31T00:00:00Z", "2026-13-01T00:00:00Z"),
    *("2026-01-00T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z", "2026-01-01T00:00:00+01:60"),
    *("2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00-23:59", "2026-01-01T00:00:00.1234567890Z"),
    *(
        "9999-12-31T23:59:59.9999999Z",
        "0000-01-01T00:00:00Z",
        "2026-01-01T00:00:00.Z",
        "2026-01-01T00:00:00+01:00",
    ),
)


def mutate(chance: random.Random, kind: str, body: bytes, other: bytes) -> bytes:
    """Return the body with one to three random changes; some changes insert pieces of `other`."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        mutation = chance.choice(_BYTE_MUTATIONS if kind.endswith("protobuf") else _JSON_MUTATIONS)
        body = mutation(chance, body, other)
    return body


def _flip_bit(chance: random.Random, body: bytes, _other: bytes) -> bytes:
    if not body:
        return body
    at = chance.randrange(len(body))
    return body[:at] + bytes([body[at] ^ 1 << chance.randrange(8)]) + body[at + 1 :]


def _set_byte(chance: random.Random, body: bytes, _other: bytes) -> bytes:
    at = chance.randrange(len(body) + 1)
    return body[:at] + chance.randbytes(1) + body[at + 1 :]


def _remove_piece(chance: random.Random, body: bytes, _other: bytes) -> bytes:
    at = chance.randrange(len(body) + 1)
    return body[:at] + body[at + chance.choice((1, 1, 2, 5, 20)) :]


def _repeat_piece(chance: random.Random, body: bytes, _other: bytes) -> bytes:
    at = chance.randrange(len(body) + 1)
    end = at + chance.choice((1, 2, 10, 40))
    return body[:end] + body[at:end] * chance.choice((1, 1, 1, 5)) + body[end:]


def _truncate(chance: random.Random, body: bytes, _other: bytes) -> bytes:
    return body[: chance.randrange(len(body) + 1)]


def _insert_token(chance: random.Random, body: bytes, _other: bytes) -> bytes:
    at = chance.randrange(len(body) + 1)
    return body[:at] + chance.choice(_TOKENS) + body[at + chance.choice((0, 0, 1, 4)) :]


def _splice(chance: random.Random, body: bytes, other: bytes) -> bytes:
    at, place = chance.randrange(len(body) + 1), chance.randrange(len(other) + 1)
    return body[:at] + other[place : place + chance.choice((5, 30, 10**6))] + body[at:]


def _replace_scalar(chance: random.Random, body: bytes, _other: bytes) -> bytes:
    """Replace the text after a colon, up to the next comma or bracket, by a token."""
    at = body.find(b":", chance.randrange(len(body) + 1)) + 1
    end = min((place for place in (body.find(c, at) for c in (b",", b"}", b"]")) if place >= 0), default=at)
    return body[:at] + chance.choice(_TOKENS) + body[end:]


def _insert_member(chance: random.Random, body: bytes, _other: bytes) -> bytes:
    at = body.find(b"{", chance.randrange(len(body) + 1)) + 1
    return body[:at] + chance.choice(_MEMBERS) + body[at:] if at else body


def _change_node(chance: random.Random, body: bytes, _other: bytes) -> bytes:
    """Replace, remove or rename a random value of the document."""
    try:
        document = json.loads(body)
        nodes = list(_holders(document))
    except (ValueError, RecursionError):
        return body
    if not nodes:
        return body
    holder, key = chance.choice(nodes)
    action = chance.randrange(6)
    if action == 0:
        del holder[key]
    elif action == 1 and isinstance(key, str):
        holder["".join(f"_{c.lower()}" if c.isupper() else c for c in key)] = holder.pop(key)
    elif action == 2 and isinstance(holder, list):
        holder += [holder[key]] * chance.choice((1, 3))
    else:
        holder[key] = chance.choice(ODD_VALUES)
    try:
        return write_json(chance, document)
    except (ValueError, RecursionError):
        return body


def _holders(node: Any) -> Iterator[tuple[Any, Any]]:
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield node, key
        yield from _holders(child)


_Mutation = Callable[[random.Random, bytes, bytes], bytes]
_BYTE_MUTATIONS: Sequence[_Mutation] = (
    *(_flip_bit, _set_byte, _remove_piece, _repeat_piece, _truncate, _insert_token, _splice),
)
_JSON_MUTATIONS: Sequence[_Mutation] = (
    *_BYTE_MUTATIONS,
    *(_replace_scalar, _insert_member, _change_node, _change_node, _change_node),
)
