"""Masks are made once for each deployment, as far as memory allows."""

import asyncio
import tracemalloc

import pytest

from deployer.log_lines.masking import Mask
from deployer.output_logs import deployment_masks
from deployer.output_logs.deployment_masks import DeploymentMasks


class _Values:
    """The variables of deployments."""

    def __init__(self, size: int = 20) -> None:
        self.read: list[int] = []
        self._size = size

    async def __call__(self, environment_id: str, deployment_id: int) -> list[str]:
        self.read.append(deployment_id)
        await asyncio.sleep(0)
        return [f"{environment_id} value {number} of {deployment_id}" for number in range(self._size)]


async def test_two_hundred_deployments_need_one_mask_each() -> None:
    values = _Values()
    masks = DeploymentMasks(values)
    for _ in range(2):
        for deployment in range(200):
            mask = await masks.find("env_a", deployment)
            assert mask.hide(f"env_a value 7 of {deployment}!") == "•••!"
    assert values.read == list(range(200))


async def test_processes_of_a_deployment_share_one_mask() -> None:
    values = _Values()
    masks = DeploymentMasks(values)
    first, *others = await asyncio.gather(*(masks.find("env_a", 1) for _ in range(4)))
    assert values.read == [1] and all(mask is first for mask in others)
    assert masks._locks == {}


async def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    values = _Values()
    one = Mask(await values("env_a", 10)).memory_bytes
    monkeypatch.setattr(deployment_masks, "_MAX_BYTES", 3 * one + one // 2)
    values = _Values()
    masks = DeploymentMasks(values)
    for deployment in (10, 11, 12, 10, 13, 10, 11):
        await masks.find("env_a", deployment)
    # 11 was not used for the longest time when 13 came.
    assert values.read == [10, 11, 12, 13, 11]
    assert masks._bytes == sum(mask.memory_bytes for mask in masks._masks.values()) <= 3.5 * one
    assert list(masks._masks) == [("env_a", 13), ("env_a", 10), ("env_a", 11)]


def test_the_memory_of_a_mask_is_estimated() -> None:
    secrets = [f"{number * 7919:x} correct horse battery staple" for number in range(500)]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        mask = Mask(secrets)
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.5 * used < mask.memory_bytes < 2 * used
