"""Masks are made once for each deployment, as far as memory allows."""

import asyncio
import tracemalloc
from typing import Any

import pytest

from control_domain.sealing import CannotOpen
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


class _Masks(DeploymentMasks):
    """Masks of deployments, with the CPU time of each account and a clock that stands still."""

    def __init__(self, values: Any) -> None:
        self.cpu_seconds: dict[int, float] = {}
        self.now = 0.0
        super().__init__(values, self._count, lambda: self.now)

    def _count(self, account_id: int, seconds: float) -> None:
        self.cpu_seconds[account_id] = self.cpu_seconds.get(account_id, 0.0) + seconds

    async def use(self, account_id: int, *deployments: int) -> None:
        for deployment in deployments:
            await self.find(account_id, "env_a", deployment)

    def count_bytes(self) -> int:
        """Return the memory of the masks, which is the counted one."""
        size = sum(kept.mask.memory_bytes for kept in self._kept.values())
        assert size == self._bytes.total() == sum(self._bytes.values())
        return size


async def test_two_hundred_deployments_need_one_mask_each() -> None:
    values = _Values()
    masks = _Masks(values)
    for _ in range(2):
        for deployment in range(200):
            mask = await masks.find(1, "env_a", deployment)
            assert mask.hide(f"env_a value 7 of {deployment}!") == "•••!"
    assert values.read == list(range(200))


async def test_processes_of_a_deployment_share_one_mask() -> None:
    values = _Values()
    masks = _Masks(values)
    first, *others = await asyncio.gather(*(masks.find(1, "env_a", 1) for _ in range(4)))
    assert values.read == [1] and all(mask is first for mask in others)
    assert not masks._locks


async def test_a_failure_makes_no_second_mask() -> None:
    """A process tries again at once, while others of the deployment wait for the mask."""
    values = _Values()

    async def read(environment_id: str, deployment_id: int) -> list[str]:
        found = await values(environment_id, deployment_id)
        if len(values.read) == 1:
            raise CannotOpen("no key")
        return found

    masks = _Masks(read)

    async def try_twice() -> None:
        with pytest.raises(CannotOpen):
            await masks.use(1, 7)
        await masks.use(1, 7)

    await asyncio.gather(try_twice(), masks.use(1, 7), masks.use(1, 7))
    assert values.read == [7, 7] and not masks._locks
    assert masks.count_bytes() > 0


async def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    values = _Values()
    one = Mask(await values("env_a", 10)).memory_bytes
    monkeypatch.setattr(deployment_masks, "_MAX_BYTES", 3 * one + one // 2)
    values = _Values()
    masks = _Masks(values)
    await masks.use(1, 10, 11, 12, 10, 13, 10, 11)
    # 11 was not used for the longest time when 13 came.
    assert values.read == [10, 11, 12, 13, 11]
    assert masks.count_bytes() <= 3.5 * one
    assert list(masks._kept) == [("env_a", 13), ("env_a", 10), ("env_a", 11)]


async def test_an_account_pushes_out_and_pays_only_its_own_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = _Values(10), _Values(100)

    async def read(environment_id: str, deployment_id: int) -> list[str]:
        return await (large if deployment_id < 10 else small)(environment_id, deployment_id)

    one = Mask(await _Values(100)("env_a", 1)).memory_bytes
    monkeypatch.setattr(deployment_masks, "_MAX_BYTES", one * 3 // 2)
    masks = _Masks(read)
    for _ in range(3):
        await masks.use(1, 11, 12)
        paid = masks.cpu_seconds[1]
        # One of these fits.
        await masks.use(2, 1, 2)
    assert (small.read, large.read) == ([11, 12], [1, 2] * 3)
    assert masks.cpu_seconds[1] == paid < masks.cpu_seconds[2]
    # What nobody uses makes room first, whoever has it.
    masks.now = 601.0
    await masks.use(2, 2, 1)
    assert ("env_a", 11) not in masks._kept and masks.count_bytes() <= one * 3 // 2


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
