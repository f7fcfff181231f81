"""The selection of tests by each suite."""

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
from hypothesis import given, strategies

from tests.support.databases import KINDS
from tests.support.suites import is_thorough

databases = pytest.mark.parametrize("kind", KINDS)

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

@pytest.mark.parametrize("kind", [pytest.param("sqlite", marks=pytest.mark.full), "postgres"])
def test_sqlite_in_full(kind): pass

@pytest.mark.longer_in_full
def test_longer(request): assert is_thorough(request.config)

@given(strategies.none())
def test_property(none): pass
"""
_QUICK = {
    "test_plain",
    "test_either[sqlite]",
    "test_both[sqlite]",
    "test_both[postgres]",
    "test_postgres_only[postgres]",
    "test_sqlite_in_full[postgres]",
    "test_longer",
    "test_property",
}
_FULL_ONLY = {"test_long", "test_either[postgres]", "test_sqlite_in_full[sqlite]"}
_LONGER_IN_FULL = {"test_longer", "test_property"}


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
    left_out = _FULL_ONLY | _LONGER_IN_FULL
    assert set().union(*parts) == left_out and sum(map(len, parts)) == len(left_out)
    # A named test runs, unless --quick is given.
    name = f"{Path(file).name}::test_long"
    assert (_collect(pytester, name), _collect(pytester, name, "--quick")) == ({"test_long"}, set())
    for arguments, passed in (((), 0), (("--full",), 1), (("--slice", "1/1"), 1)):
        done = pytester.runpytest_inprocess(
            "-p", "no:xdist", "-p", "no:asyncio", "-k", "test_longer", *arguments
        )
        done.assert_outcomes(passed=passed, failed=1 - passed)
    for wrong in ("0/3", "4/3", "x"):
        assert (
            pytester.runpytest_inprocess("--slice", wrong, "-p", "no:xdist", "-p", "no:asyncio").ret
            == pytest.ExitCode.USAGE_ERROR
        )
