"""Duplicate keys are found anywhere in a JSON body, with memory in proportion to the body."""

import contextlib
import tracemalloc

import pytest

from git_hosts.payloads.json_keys import BadKeys, check_keys

MOST = 5 * 2**20


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"a":1,"a":1}', "a"),
        (b'{"a":1,"\\u0061":2}', "a"),
        (b'{"":1,"":2}', ""),
        (b'{"x":[{"y":{"z":0,"b":1,"b":{}}}]}', "b"),
        (b'[{"a":{"a":1},"a":null}]', "a"),
        ('{"ä":1,"b":{"c":"ä"},"ä":2}'.encode(), "ä"),
        (b'{"\\ud800":1,"\\ud800":2}', "?"),
        (b'{"x":"\xff","a":1,"a":2}', "a"),
        (b'{"' + b"k" * 9000 + b'":1,"' + b"k" * 9000 + b'":2}', "k" * 100),
    ],
)
def test_a_duplicate_key_is_refused(body: bytes, field: str) -> None:
    with pytest.raises(BadKeys, match="more than once") as caught:
        check_keys(body)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"a":{"a":{"a":1}},"b":{"a":1}}',
        b'[{"a":1},{"a":1}]',
        b'{"a":"\\"a\\":1,\\"a\\":2","A":0}',
        b'{"a":1,"a ":2}',
        b'{"\xfe":1,"\xff":2}',
        # Not JSON: the decoder refuses it.
        b"",
        b"{'a':1,'a':2}",
        b'{"a":1,"b":2',
        b'{"a":' + b"1" * 100_000 + b"}",
    ],
)
def test_valid_bodies_pass(body: bytes) -> None:
    check_keys(body)


@pytest.mark.parametrize(
    "body", [b"[" * MOST, b'{"a":' * (MOST // 5), b'{"a":1,"b":' + b"[" * 5000 + b"]" * 5000 + b',"a":2}']
)
def test_deep_duplicate_keys_are_found(body: bytes) -> None:
    with pytest.raises(BadKeys):
        check_keys(body)


@pytest.mark.parametrize(
    "unit", [b"[]", b"{}", b'"ab"', b"1.5", b'{"a":1}', b"[" * 100 + b"]" * 100, b'{"a":[{}]}']
)
def test_many_values_take_little_more_memory_than_the_body(unit: bytes) -> None:
    body = b"[" + b",".join([unit] * (MOST // (len(unit) + 1))) + b"]"
    tracemalloc.start()
    with contextlib.suppress(BadKeys):
        check_keys(body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12 * MOST


def test_many_keys_take_little_more_memory_than_the_body() -> None:
    bodies = [b",".join(b'"%x":0' % number for number in range(240_000)), b",".join([b'"a":1'] * 240_000)]
    for body in bodies:
        tracemalloc.start()
        with contextlib.suppress(BadKeys):
            check_keys(b"{" + body + b"}")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 16 * MOST
