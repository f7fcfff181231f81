"""Fixtures for processes, all of which must have ended after the test."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from deployer.processes.marks import end_marked, find_marked
from tests.deployer.processes.sandbox import Sandbox, make_sandbox


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    made = make_sandbox(tmp_path / "place")
    yield made
    left = find_marked(made.mark)
    await end_marked(made.mark, made.confinement.owner)
    assert left == {}


@pytest.fixture
def null_output() -> Iterator[int]:
    descriptor = os.open("/dev/null", os.O_WRONLY)
    yield descriptor
    os.close(descriptor)
