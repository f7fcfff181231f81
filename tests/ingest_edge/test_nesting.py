"""How deep JSON is nested, against a parser that really parses."""

import json
import random
from typing import Any

import pytest

from ingest_edge.decoders.nesting import is_nested_deeper


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0


def _random(chance: random.Random, levels: int) -> Any:
    kind = chance.random()
    if levels == 0 or kind < 0.2:
        return chance.choice(
            [1, None, "", "{", "}", "][", '"', "\\", '\\"', '{"a": [', "/x/{id}", "æ", "]" * 9]
        )
    count = chance.randint(1, 3) if levels < 4 else 1
    if kind < 0.6:
        return [_random(chance, levels - 1) for _ in range(count)]
    return {chance.choice(["a", "}", '"', "[{"]) + str(n): _random(chance, levels - 1) for n in range(count)}


@pytest.mark.parametrize("seed", range(60))
def test_it_agrees_with_a_parser(seed: int) -> None:
    chance = random.Random(seed)
    value = _random(chance, chance.randint(1, 30))
    # Long enough to leave the shortcut for small bodies behind.
    body = json.dumps([value, "x" * 5000]).encode()
    depth = _depth([value])
    for limit in (4, depth - 1, depth, depth + 1, 64):
        if limit >= 4:
            assert is_nested_deeper(body, limit) == (depth > limit)


def test_brackets_in_strings_hide_nothing() -> None:
    deep = '["]", ' * 100 + "1" + ', "["]' * 100
    json.loads(deep)
    assert is_nested_deeper(deep.encode() + b" " * 5000, 64)
    flat = json.dumps(["[" * 1000, "{" * 1000, "x" * 5000])
    assert not is_nested_deeper(flat.encode(), 64)


@pytest.mark.parametrize(("depth", "deeper"), [(64, False), (65, True), (100_000, True)])
def test_the_limit_is_exact(depth: int, deeper: bool) -> None:
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")):
        times = depth // (opening.count(b"[") + opening.count(b"{"))
        times += depth % 2 if len(closing) == 2 and depth % 2 else 0
        body = opening * times + b"1" + closing * times
        expected = deeper or (len(closing) == 2 and 2 * times > 64)
        assert is_nested_deeper(body, 64) == expected
        assert is_nested_deeper(body + b" " * 5000, 64) == expected
