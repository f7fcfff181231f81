"""The control plane's database with two accounts in it, on both kinds."""

from collections.abc import Iterator

import pytest

from tests.support.cheap_engines import cheap_engines
from tests.support.prepared_platform import platform, prepared

__all__ = ["platform", "prepared"]


@pytest.fixture(scope="package", autouse=True)
def engines_are_cheap() -> Iterator[None]:
    """In the process of the tests."""
    with cheap_engines():
        yield
