"""Long texts, which anybody may send, are not cached: caches of 16,384 of them would take gigabytes."""

import gc
from functools import _lru_cache_wrapper
from typing import Any

import pytest

from ingest_edge.collect import sources
from ingest_edge.collect.user_agents import load_user_agents
from pipeline_contracts import origins

_ORIGINS = ("https://shop.example",)
_LONG = "x" * 30_000
_MOST_CHARACTERS = 1024


@pytest.mark.parametrize(
    ("read", "cache"),
    [
        (lambda text: sources.name_source("", f"{text}.example", _ORIGINS), sources._name_host),
        (lambda text: origins.is_registered(f"https://{text}.example", _ORIGINS), origins._is_registered),
        (lambda text: load_user_agents().parse(f"Mozilla/5.0 {text}"), load_user_agents()._parse_cached),
    ],
    ids=["referrer", "origin", "User-Agent"],
)
def test_long_texts_are_not_cached(read: Any, cache: Any) -> None:
    assert isinstance(cache, _lru_cache_wrapper)
    cache.cache_clear()
    read("kept")
    assert cache.cache_info().currsize == 1
    read(_LONG)
    # Keys are tuples of the arguments, or the only argument itself.
    kept = [one for held in gc.get_referents(cache) for one in _texts(held)]
    assert max(map(len, kept)) <= _MOST_CHARACTERS


def _texts(held: Any) -> list[str]:
    if isinstance(held, str):
        return [held]
    if isinstance(held, dict | tuple | list):
        return [text for one in held for text in _texts(one)]
    return []


def test_long_hosts_and_origins_are_unknown() -> None:
    assert sources.name_source("", _LONG, _ORIGINS) == sources.DIRECT
    assert not origins.is_registered(f"https://{_LONG}.shop.example", ("https://*.shop.example",))
    assert origins.is_registered(f"https://{'x' * 60}.shop.example", ("https://*.shop.example",))
