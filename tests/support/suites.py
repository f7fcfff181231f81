"""Which tests `make test` runs, and which ones only `make test-full` does.

`make test` covers every behaviour once. It leaves out tests marked `full`, and the Postgres run of a test that has an
SQLite one, unless the test is marked `both_databases`. `--full` runs everything; `--slice K/N` runs the K-th of N parts
of what `make test` leaves out.
"""

import zlib
from collections.abc import Iterable

import pytest

MARKS = (
    "full: costs too much for every run; `make test-full` runs it",
    "both_databases: runs on Postgres in `make test` too: locks, races, constraints, upserts, paging, migrations",
)


def add_options(parser: pytest.Parser) -> None:
    """`--full` and `--slice`."""
    group = parser.getgroup("suites")
    group.addoption("--full", action="store_true", help="run every test, for releases")
    group.addoption(
        "--slice", metavar="K/N", help="of the tests that only --full runs, the K-th of N parts (K from 1)"
    )


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the items of the chosen suite in `items`; report the others as deselected."""
    if config.getoption("full"):
        return
    expensive = _find_expensive(items)
    if given := config.getoption("slice"):
        part, count = _read_slice(given)
        kept = [
            item
            for item in items
            if item in expensive and zlib.crc32(item.nodeid.encode()) % count == part - 1
        ]
    elif _are_named(config.args):
        return
    else:
        kept = [item for item in items if item not in expensive]
    chosen = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = kept


def _are_named(arguments: Iterable[str]) -> bool:
    """True if each argument names single tests: whoever names one wants it to run."""
    named = list(arguments)
    return bool(named) and all("::" in argument for argument in named)


def _read_slice(given: str) -> tuple[int, int]:
    part, _, count = given.partition("/")
    if not (part.isdecimal() and count.isdecimal() and 1 <= int(part) <= int(count)):
        raise pytest.UsageError(f"--slice {given}: expected K/N with 1 <= K <= N, for example 2/7")
    return int(part), int(count)


def _find_expensive(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    on_sqlite = {_function(item) for item in items if _has_parameter(item, "sqlite")}
    return {
        item
        for item in items
        if item.get_closest_marker("full")
        or (
            _has_parameter(item, "postgres")
            and _function(item) in on_sqlite
            and not item.get_closest_marker("both_databases")
        )
    }


def _function(item: pytest.Item) -> tuple[str, str]:
    return str(item.path), getattr(item, "originalname", item.name)


def _has_parameter(item: pytest.Item, value: str) -> bool:
    spec = getattr(item, "callspec", None)
    return spec is not None and any(
        given == value for given in spec.params.values() if isinstance(given, str)
    )
