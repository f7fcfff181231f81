"""A rollback and a stop of the environment also end processes that the release has hidden."""

import os

import pytest

from deployer.processes.start_process import has_namespaces
from tests.hostile.hidden_processes import attack_by_deployment
from tests.support.driver_under_test import driver_under_test

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs a user for each environment")


async def test_a_rollback_leaves_no_hidden_process() -> None:
    if not await has_namespaces():
        pytest.skip("this kernel grants no namespaces, so processes without a mark are not found")
    async with driver_under_test() as under_test:
        live, rolled_back, stopped = await attack_by_deployment(under_test, settle_seconds=0)
    assert (live, rolled_back, stopped) == (1, 0, 0)
