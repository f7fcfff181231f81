"""A place for processes, of which nothing may be left after the test."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from deployer.processes.marks import end_all, find_marked
from tests.deployer.processes.places import Place, make_place


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    made = make_place(tmp_path / "place")
    yield made
    left = find_marked(made.mark)
    await end_all(made.mark, made.confinement.owner)
    assert left == {}


@pytest.fixture
def nowhere() -> Iterator[int]:
    descriptor = os.open("/dev/null", os.O_WRONLY)
    yield descriptor
    os.close(descriptor)
