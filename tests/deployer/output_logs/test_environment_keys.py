"""Keys are known as soon as they are created, and missing ones do not burden the database."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from control_domain.projects.application_keys import ApplicationKey
from deployer.output_logs.environment_keys import EnvironmentKeys

_KEY = ApplicationKey("secret-1", "env_a", "production", "shop", 1, 100.0, 1000)
_NEXT = replace(_KEY, secret="secret-2")


class _Database:
    def __init__(self) -> None:
        self.now = 1000.0
        self.keys = {"env_a": _KEY}
        self.queries: list[tuple[float, list[str]]] = []
        self.cache = EnvironmentKeys(self.find, lambda: self.now)

    async def find(self, environment_ids: Collection[str]) -> Mapping[str, ApplicationKey]:
        self.queries.append((self.now - 1000, sorted(environment_ids)))
        return {name: self.keys[name] for name in environment_ids if name in self.keys}

    async def pass_time(self, seconds: float, environments: Collection[str] = ("env_a",)) -> None:
        """Refresh ten times a second."""
        end = self.now + seconds
        while self.now < end:
            await self.cache.refresh(environments)
            self.now += 0.1

    def query_times(self) -> list[int]:
        return [round(at) for at, _ in self.queries]


async def test_a_created_key_is_used_at_once() -> None:
    database = _Database()
    database.keys.clear()
    await database.cache.refresh(["env_a"])
    assert database.cache.get("env_a") is None
    database.cache.accept(_KEY)
    assert database.cache.get("env_a") == _KEY
    # It replaces the revoked key of the deployment before.
    database.cache.accept(_NEXT)
    assert database.cache.get("env_a") == _NEXT
    assert len(database.queries) == 1


async def test_a_missing_key_is_read_again_more_and_more_rarely() -> None:
    database = _Database()
    database.keys.clear()
    await database.pass_time(100)
    assert database.query_times() == [0, 1, 3, 7, 15, 31, 61, 91]


async def test_the_time_without_a_key_is_counted_until_there_is_one() -> None:
    database = _Database()
    await database.pass_time(5)
    assert database.cache.absent_seconds("env_a") == database.cache.absent_seconds("env_b") == 0
    # Revoked: the edge refuses the key, and the database does not return it.
    database.keys.clear()
    database.cache.refuse(_KEY)
    await database.pass_time(12)
    assert 10 < database.cache.absent_seconds("env_a") < 12
    database.keys["env_a"] = _NEXT
    await database.pass_time(30)
    assert database.cache.absent_seconds("env_a") == 0


async def test_a_key_that_is_not_published_yet_is_tried_again_soon() -> None:
    database = _Database()
    refusals = []
    for _ in range(40):
        await database.cache.refresh(["env_a"])
        if (key := database.cache.get("env_a")) is not None:
            refusals.append(round(database.now - 1000))
            failures = database.cache.refuse(key)
        database.now += 1
    assert refusals == [0, 1, 3, 7, 15, 31] and failures == 6
    # An accepted batch ends the long waits.
    database.now += 30
    await database.cache.refresh(["env_a"])
    database.cache.confirm(_KEY)
    assert database.cache.refuse(_KEY) == 1


async def test_a_refusal_of_the_former_key_does_not_concern_the_new_one() -> None:
    database = _Database()
    await database.cache.refresh(["env_a"])
    database.cache.accept(_NEXT)
    database.cache.refuse(_KEY)
    assert database.cache.get("env_a") == _NEXT


async def test_many_new_environments_share_queries() -> None:
    database = _Database()
    environments = [f"env_{number}" for number in range(200)]
    for number in range(200):
        await database.pass_time(0.1, environments[: number + 1])
    assert len(database.queries) <= 20 / 0.5 + 1
    database.cache.forget_all_but(["env_1"])
    assert list(database.cache._entries) == ["env_1"]
