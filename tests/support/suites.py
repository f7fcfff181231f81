"""Which tests `make test` runs, and which ones only `make test-full` does.

`make test` covers every behaviour once. It leaves out tests marked `full`, and those marked `second_database` unless
they are marked `both_databases` too. `--full` runs everything. `--slice K/N` runs the K-th of N parts of what `make
test` leaves out, and of the tests that check more with `--full`.
"""

import zlib
from collections.abc import Iterable

import pytest

MARKS = (
    "full: costs too much for every run; `make test-full` runs it",
    "second_database: the Postgres run of a test that runs on SQLite too",
    "both_databases: runs on Postgres in `make test` too: locks, races, constraints, upserts, paging, migrations",
    "longer_in_full: does more in `make test-full`, and therefore in slices too; it asks `suites.is_thorough`",
)


def add_options(parser: pytest.Parser) -> None:
    """Add the options `--full`, `--quick` and `--slice`."""
    group = parser.getgroup("suites")
    group.addoption("--full", action="store_true", help="run every test, for releases")
    group.addoption(
        "--quick", action="store_true", help="leave out tests that only --full runs, even if they are named"
    )
    group.addoption(
        "--slice", metavar="K/N", help="of the tests that only --full runs, the K-th of N parts (K from 1)"
    )


def is_thorough(config: pytest.Config) -> bool:
    """True if tests that can do more should: more random examples, more values."""
    return bool(config.getoption("full") or config.getoption("slice"))


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the items of the chosen suite in `items`; report the others as deselected."""
    if config.getoption("full"):
        return
    if text := config.getoption("slice"):
        part, count = _read_slice(text)
        kept = [
            item
            for item in items
            if (_is_expensive(item) or _does_more(item))
            and zlib.crc32(item.nodeid.encode()) % count == part - 1
        ]
    elif _names_single_tests(config.args) and not config.getoption("quick"):
        return
    else:
        kept = [item for item in items if not _is_expensive(item)]
    chosen = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = kept


def _names_single_tests(arguments: Iterable[str]) -> bool:
    """True if every argument names a test (`file::test`): a named test always runs."""
    named = list(arguments)
    return bool(named) and all("::" in argument for argument in named)


def _is_expensive(item: pytest.Item) -> bool:
    has = item.get_closest_marker
    return bool(has("full") or (has("second_database") and not has("both_databases")))


def _does_more(item: pytest.Item) -> bool:
    is_property = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    return bool(is_property or item.get_closest_marker("longer_in_full"))


def _read_slice(text: str) -> tuple[int, int]:
    part, _, count = text.partition("/")
    if not (part.isdecimal() and count.isdecimal() and 1 <= int(part) <= int(count)):
        raise pytest.UsageError(f"--slice {text}: expected K/N with 1 <= K <= N, for example 2/5")
    return int(part), int(count)
