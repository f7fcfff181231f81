"""People change a project during a configuration run of fifty operations: their changes stay, the conflicting operation
fails with a reason, and the rest can be applied."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from control_domain.refusals import Refused
from tests.support.fifty_among_people import WISH, Shop, open_shop
from tests.support.fifty_operations import COUNT, Fifty, until_ended

_SECONDS = 120
_MOST_TRIES = 20


pytestmark = pytest.mark.timeout(600)


@pytest.fixture
async def shop(fifty: Fifty, tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(fifty, tmp_path) as opened:
        yield opened


def _find(application: Any, resource: str) -> Any:
    (found,) = [one for one in application["operations"] if one["resource"] == resource]
    return found


def _statuses(application: Any) -> Counter[str]:
    return Counter(one["status"] for one in application["operations"])


def _check_failed_at(application: Any, resource: str, error: str) -> Any:
    """Check that only this operation has failed, that earlier ones are done, and that later ones wait."""
    failed = _find(application, resource)
    place = application["operations"].index(failed)
    assert (application["status"], failed["status"], failed["error"]) == ("failed", "failed", error)
    assert _statuses(application) == {"succeeded": place, "failed": 1, "pending": COUNT - place - 1}
    assert 0 < place < COUNT - 1
    return failed


async def test_what_was_scaled_meanwhile_is_not_scaled_back(shop: Shop) -> None:
    shop.people["started", "environments.production"] = lambda: shop.scale("production", 7)
    async with shop.working():
        failed = _check_failed_at(
            await shop.ended(),
            "environments.production",
            "environments.production was changed meanwhile: replicas; make a new review.",
        )
        # None of its settings was changed: it has other settings as well.
        assert (await shop.shown("production"))["name"] == "Production"
        await shop.operate(failed, "retry")
        again = _find(await shop.ended(), "environments.production")
        assert (again["status"], again["attempts"], again["error"]) == ("failed", 2, failed["error"])
        await shop.scale("production", 1)
        await shop.operate(again, "retry")
        application = await shop.ended()
    assert (application["status"], _statuses(application)) == ("succeeded", {"succeeded": COUNT})
    await shop.check_as_wanted()


async def test_a_new_review_goes_on_from_what_people_did(shop: Shop) -> None:
    shop.people["started", "environments.production"] = lambda: shop.scale("production", 7)
    async with shop.working():
        failed = await shop.ended()
        done = _statuses(failed)["succeeded"]
        applied = await shop.apply_anew()
        before = await shop.application()
    assert (applied["status"], len(applied["operations"])) == ("succeeded", COUNT - done)
    scaled = [
        one for one in _find(applied, "environments.production")["changes"] if one["field"] == "replicas"
    ]
    assert scaled == [{"field": "replicas", "from": 7, "to": 3}]
    # The earlier run has left its remaining operations to the new run.
    assert _statuses(before) == {"succeeded": done, "failed": 1, "canceled": COUNT - done - 1}
    errors = {one["error"] for one in before["operations"] if one["status"] == "canceled"}
    assert errors == {f"Called off: application {applied['id']} came first."}
    for one in before["operations"]:
        status, response = await shop.ask(one, "retry")
        assert (status, response["type"]) == (409, "/problems/operation-not-possible")
    await shop.check_as_wanted()


async def test_a_rename_during_the_run_is_kept(shop: Shop) -> None:
    async def rename() -> None:
        # The configuration renames the one environment, and does not mention the name of the other.
        await shop.act("environments/set", id="qa", name="Trials")
        await shop.act("environments/set", id="staging", name="Rehearsal")

    shop.people["started", "environments.qa"] = rename
    async with shop.working():
        failed = _check_failed_at(
            await shop.ended(),
            "environments.qa",
            "environments.qa was changed meanwhile: name; make a new review.",
        )
        assert (await shop.shown("qa"))["name"] == "Trials"
        await shop.act("environments/set", id="qa", name="Qa")
        await shop.operate(failed, "retry")
        assert (await shop.ended())["status"] == "succeeded"
    assert (await shop.shown("staging"))["name"] == "Rehearsal"
    await shop.check_as_wanted()


async def test_a_removal_during_the_run_is_not_undone(shop: Shop) -> None:
    async def remove() -> None:
        # The document removes that environment anyway.
        await shop.act("environments/remove", id="old-2")
        await shop.act("environments/remove", id="staging")

    shop.people["started", "environments.staging"] = remove
    async with shop.working():
        failed = _check_failed_at(
            await shop.ended(),
            "environments.staging",
            "environments.staging was removed meanwhile; make a new review.",
        )
        await shop.operate(failed, "retry")
        assert _find(await shop.ended(), "environments.staging")["error"] == failed["error"]
        applied = await shop.apply_anew()
    assert applied["status"] == "succeeded"
    assert _find(applied, "environments.staging")["action"] == "create"
    resources = [one["resource"] for one in applied["operations"]]
    assert {"environments.old-1", "environments.old-3"} <= {*resources}
    assert "environments.old-2" not in resources
    await shop.check_as_wanted()


async def test_what_was_to_go_and_was_changed_meanwhile_stays(shop: Shop) -> None:
    shop.people["started", "environments.old-2"] = lambda: shop.scale("old-2", 2)
    async with shop.working():
        failed = _check_failed_at(
            await shop.ended(),
            "environments.old-2",
            "environments.old-2 was changed meanwhile: replicas; make a new review.",
        )
        assert (await shop.shown("old-2"))["desired_replicas"] == 2
        assert failed["action"] == "delete"
        assert (await shop.apply_anew())["status"] == "succeeded"
    with pytest.raises(Refused):
        await shop.shown("old-2")
    await shop.check_as_wanted()


async def test_removals_that_already_happened_are_done_and_cancelled_ones_are_skipped(shop: Shop) -> None:
    resource = "environments.production.heartbeats.backup"

    async def remove() -> None:
        await shop.act("environments/remove", id="old-2")

    async def cancel() -> None:
        await shop.operate(_find(await shop.application(), resource), "cancel")

    shop.people["started", "environments.production"] = cancel
    shop.people["started", "environments.old-2"] = remove
    async with shop.working():
        application = await shop.ended()
        assert application["status"] == "canceled"
        assert _statuses(application) == {"succeeded": COUNT - 1, "canceled": 1}
        assert _find(application, "environments.old-2")["status"] == "succeeded"
        assert shop.people == {}
        (remaining,) = (await shop.configure("POST", "plan", WISH))["actions"]
        assert remaining["resource"] == resource
        await shop.operate(_find(application, resource), "retry")
        assert (await shop.ended())["status"] == "succeeded"
    await shop.check_as_wanted()


# People and the worker write concurrently on Postgres, and one after the other on SQLite.
@pytest.mark.both_databases
@pytest.mark.parametrize("fifty", [pytest.param("sqlite", marks=pytest.mark.full), "postgres"], indirect=True)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.full)])
async def test_a_run_ends_despite_constant_concurrent_changes(shop: Shop, seed: int) -> None:
    did: Counter[str] = Counter()
    chances = [random.Random(2 * seed + one) for one in range(2)]
    errors = []
    async with shop.working():
        enough, free = asyncio.Event(), asyncio.Event()
        free.set()
        async with asyncio.TaskGroup() as people:
            for chance in chances:
                people.create_task(_change_repeatedly(shop, chance, did, enough, free))
            applied = 0
            # Wait until people have made a few changes in between, however writers are scheduled.
            while applied < 3 or not _has_progressed(did):
                ended = await _apply_with_concurrent_changes(shop, free)
                errors += [one["error"] for one in ended["operations"] if one["status"] == "failed"]
                applied += 1
            enough.set()
        await shop.ended()
        assert (await shop.apply_anew())["status"] == "succeeded"
    assert _has_progressed(did), did
    assert [error for error in errors if not error.endswith("make a new review.")] == []
    await shop.check_as_wanted()


def _has_progressed(did: Counter[str]) -> bool:
    return did.total() > 20 and len(did) > 4


async def _change_repeatedly(
    shop: Shop, chance: random.Random, did: Counter[str], enough: asyncio.Event, free: asyncio.Event
) -> None:
    """Ignore refused changes."""
    while not enough.is_set():
        await free.wait()
        slug = chance.choice(["production", "staging", "qa", "careful", "canary", "old-1", "old-2"])
        deed = chance.choice([_scale, _change_state, _rename, _lock, _remove, _create, _change_project])
        try:
            await deed(shop, slug, chance)
            did[deed.__name__] += 1
        except Refused:
            did["refused"] += 1
        # People pause between two changes; otherwise the worker would get almost no time.
        await asyncio.sleep(0.02)


async def _scale(shop: Shop, slug: str, chance: random.Random) -> None:
    number = (await shop.shown(slug))["number"]
    await shop.call("PATCH", f"environments/{number}/scale", {"replicas": chance.randint(1, 9)})


async def _change_state(shop: Shop, slug: str, chance: random.Random) -> None:
    number = (await shop.shown(slug))["number"]
    state = chance.choice(["running", "hibernated"])
    await shop.call("PATCH", f"environments/{number}/runtime", {"state": state})


async def _rename(shop: Shop, slug: str, chance: random.Random) -> None:
    await shop.act("environments/set", id=slug, name=f"Name {chance.random()}")


async def _lock(shop: Shop, slug: str, chance: random.Random) -> None:
    await shop.act("environments/lock", id=slug, reason="Nobody deploys now.")


async def _remove(shop: Shop, slug: str, chance: random.Random) -> None:
    # The document needs a variable of that environment to be kept.
    if slug != "production":
        await shop.act("environments/remove", id=slug)


async def _create(shop: Shop, slug: str, chance: random.Random) -> None:
    project = str(shop.fifty.project_id)
    await shop.act("environments/create", project_id=project, name=slug, slug=slug, type="staging")


async def _change_project(shop: Shop, slug: str, chance: random.Random) -> None:
    operation = chance.choice((await shop.application())["operations"])
    await shop.ask(operation, chance.choice(["cancel", "retry"]))


async def _apply_with_concurrent_changes(shop: Shop, free: asyncio.Event) -> Any:
    """Review again each time the project has changed before the apply; return the run at its end."""
    tries = 0
    try:
        async with asyncio.timeout(_SECONDS):
            while True:
                await until_ended(shop.sessions)
                review = await shop.configure("POST", "reviews", WISH)
                status, response = await shop.call(
                    "POST", f"{shop.configuration}/reviews/{review['id']}/apply"
                )
                if status == 200:
                    break
                assert status == 409, response
                tries += 1
                if tries == _MOST_TRIES:
                    # Concurrent changes always came first, and might for ever: stop people after their current change.
                    free.clear()
    finally:
        free.set()
    return await shop.ended(response["data"]["id"])
