"""Password hashes, of which two are computed at a time."""

import asyncio

import pytest

from control_domain.sign_in import password_hashes
from control_domain.sign_in.password_hashes import PasswordHasher
from pipeline_contracts.errors import Unavailable


async def test_a_hash_verifies_its_password_only() -> None:
    hasher = PasswordHasher()
    stored = await hasher.hash("violet anchors \ud800 north")
    assert stored.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert await hasher.verify("violet anchors \ud800 north", stored)
    assert not await hasher.verify("violet anchors drift south", stored)
    assert not await hasher.verify("correct horse", None)
    assert stored != await hasher.hash("violet anchors \ud800 north")


async def test_two_run_and_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    running = most = 0
    gate = asyncio.Event()

    async def run(function: object) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1
        return "hashed"

    monkeypatch.setattr(password_hashes.asyncio, "to_thread", run)
    hasher = PasswordHasher()
    tasks = [asyncio.create_task(hasher.hash("x")) for _ in range(66)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        await hasher.hash("one too many")
    # A canceled request leaves its thread running, so no other hash starts yet.
    tasks[0].cancel()
    await asyncio.wait([tasks[0]])
    assert most == 2
    gate.set()
    assert set(await asyncio.gather(*tasks[1:])) == {"hashed"}
    assert most == 2


async def test_one_wider_network_cannot_use_all_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = asyncio.Event()

    async def run(function: object) -> bool:
        await gate.wait()
        return True

    monkeypatch.setattr(password_hashes.asyncio, "to_thread", run)
    hasher = PasswordHasher()
    crowd = [
        asyncio.create_task(hasher.verify("x", "hash", f"2001:db8:1:{number:x}::/64")) for number in range(40)
    ]
    other = asyncio.create_task(hasher.verify("x", "hash", "2001:db8:2::/64"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gate.set()
    results = await asyncio.gather(*crowd, other, return_exceptions=True)
    # Two run and sixteen wait.
    assert [isinstance(result, Unavailable) for result in results].count(False) == 19
    assert results[-1] is True
    # All places are free again.
    assert await hasher.verify("x", "hash", "2001:db8:1::/64")
