"""Which tests belong to which suite."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

_CONFTEST = """
from tests.support import suites

def pytest_addoption(parser):
    suites.add_options(parser)

def pytest_configure(config):
    for mark in suites.MARKS:
        config.addinivalue_line("markers", mark)

def pytest_collection_modifyitems(config, items):
    suites.select(config, items)
"""
_TESTS = """
import pytest

databases = pytest.mark.parametrize("kind", ["sqlite", "postgres"])

def test_plain(): pass

@pytest.mark.full
def test_long(): pass

@databases
def test_either(kind): pass

@pytest.mark.both_databases
@databases
def test_both(kind): pass

@pytest.mark.parametrize("kind", ["postgres"])
def test_postgres_only(kind): pass
"""
_QUICK = {
    "test_plain",
    "test_either[sqlite]",
    "test_both[sqlite]",
    "test_both[postgres]",
    "test_postgres_only[postgres]",
}
_FULL_ONLY = {"test_long", "test_either[postgres]"}


def _collect(pytester: pytest.Pytester, *arguments: str) -> set[str]:
    done = pytester.runpytest_inprocess(
        "--collect-only", "-q", "-p", "no:xdist", "-p", "no:asyncio", *arguments
    )
    return {line.partition("::")[2] for line in done.outlines if "::" in line}


def test_each_suite_has_its_tests(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(_CONFTEST)
    file = pytester.makepyfile(test_it=_TESTS)
    assert _collect(pytester) == _QUICK
    assert _collect(pytester, "--full") == _QUICK | _FULL_ONLY
    parts = [_collect(pytester, "--slice", f"{part}/3") for part in (1, 2, 3)]
    assert set().union(*parts) == _FULL_ONLY and sum(map(len, parts)) == len(_FULL_ONLY)
    # Whoever names a test wants it to run.
    assert _collect(pytester, f"{Path(file).name}::test_long") == {"test_long"}
    for wrong in ("0/3", "4/3", "x"):
        assert (
            pytester.runpytest_inprocess("--slice", wrong, "-p", "no:xdist", "-p", "no:asyncio").ret
            == pytest.ExitCode.USAGE_ERROR
        )
