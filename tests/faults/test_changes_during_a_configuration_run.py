"""People change resources during a run of fifty steps: their changes stay, the conflicting step fails with a reason,
and all other steps can be applied."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fifty_steps import COUNT, Fifty, until_ended
from tests.support.fifty_steps_among_people import WISH, RequestRefused, Shop, open_shop

_SECONDS = 120
_MOST_TRIES = 20


pytestmark = pytest.mark.timeout(600)


@pytest.fixture
async def shop(fifty: Fifty, tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(fifty, tmp_path) as opened:
        yield opened


def _find(run: Any, resource: str) -> Any:
    (found,) = [one for one in run["operations"] if one["resource"] == resource]
    return found


def _statuses(run: Any) -> Counter[str]:
    return Counter(one["status"] for one in run["operations"])


def _check_failed_at(run: Any, resource: str, error: str) -> Any:
    """Check that this step has failed, the steps before it have succeeded, and the steps after it are pending."""
    failed = _find(run, resource)
    place = run["operations"].index(failed)
    assert (run["status"], failed["status"], failed["error"]) == ("failed", "failed", error)
    assert _statuses(run) == {"succeeded": place, "failed": 1, "pending": COUNT - place - 1}
    assert 0 < place < COUNT - 1
    return failed


async def test_a_concurrent_scaling_is_not_reverted(shop: Shop) -> None:
    shop.people["started", "environments.production"] = lambda: shop.scale("production", 7)
    async with shop.working():
        failed = _check_failed_at(
            await shop.ended(),
            "environments.production",
            "environments.production was changed meanwhile: replicas; make a new review.",
        )
        # None of the step's other settings was changed.
        assert (await shop.shown("production"))["name"] == "Production"
        await shop.move_step(failed, "retry")
        again = _find(await shop.ended(), "environments.production")
        assert (again["status"], again["attempts"], again["error"]) == ("failed", 2, failed["error"])
        await shop.scale("production", 1)
        await shop.move_step(again, "retry")
        run = await shop.ended()
    assert (run["status"], _statuses(run)) == ("succeeded", {"succeeded": COUNT})
    await shop.check_as_wanted()


async def test_a_new_review_builds_on_concurrent_changes(shop: Shop) -> None:
    shop.people["started", "environments.production"] = lambda: shop.scale("production", 7)
    async with shop.working():
        failed = await shop.ended()
        done = _statuses(failed)["succeeded"]
        applied = await shop.apply_anew()
        before = await shop.read_run()
    assert (applied["status"], len(applied["operations"])) == ("succeeded", COUNT - done)
    scaled = [
        one for one in _find(applied, "environments.production")["changes"] if one["field"] == "replicas"
    ]
    assert scaled == [{"field": "replicas", "from": 7, "to": 3}]
    # The steps that the earlier run had not started are canceled.
    assert _statuses(before) == {"succeeded": done, "failed": 1, "canceled": COUNT - done - 1}
    errors = {one["error"] for one in before["operations"] if one["status"] == "canceled"}
    assert errors == {f"Canceled: application {applied['id']} came first."}
    for one in before["operations"]:
        status, result = await shop.ask(one, "retry")
        assert (status, result["type"]) == (409, "/problems/operation-not-possible")
    await shop.check_as_wanted()


async def test_a_concurrent_renaming_is_kept(shop: Shop) -> None:
    async def rename() -> None:
        # The configuration renames one of them, and omits the other.
        await shop.change("PATCH", "qa", body={"name": "Trials"})
        await shop.change("PATCH", "staging", body={"name": "Rehearsal"})

    shop.people["started", "environments.qa"] = rename
    async with shop.working():
        failed = _check_failed_at(
            await shop.ended(),
            "environments.qa",
            "environments.qa was changed meanwhile: name; make a new review.",
        )
        assert (await shop.shown("qa"))["name"] == "Trials"
        await shop.change("PATCH", "qa", body={"name": "Qa"})
        await shop.move_step(failed, "retry")
        assert (await shop.ended())["status"] == "succeeded"
    assert (await shop.shown("staging"))["name"] == "Rehearsal"
    await shop.check_as_wanted()


async def test_a_concurrently_removed_resource_is_not_recreated(shop: Shop) -> None:
    async def remove() -> None:
        # The configuration deletes this one anyway.
        await shop.change("DELETE", "old-2")
        await shop.change("DELETE", "staging")

    shop.people["started", "environments.staging"] = remove
    async with shop.working():
        failed = _check_failed_at(
            await shop.ended(),
            "environments.staging",
            "environments.staging was removed meanwhile; make a new review.",
        )
        await shop.move_step(failed, "retry")
        assert _find(await shop.ended(), "environments.staging")["error"] == failed["error"]
        applied = await shop.apply_anew()
    assert applied["status"] == "succeeded"
    assert _find(applied, "environments.staging")["action"] == "create"
    resources = [one["resource"] for one in applied["operations"]]
    assert {"environments.old-1", "environments.old-3"} <= {*resources}
    assert "environments.old-2" not in resources
    await shop.check_as_wanted()


async def test_a_concurrently_changed_resource_is_not_deleted(shop: Shop) -> None:
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
    with pytest.raises(RequestRefused):
        await shop.shown("old-2")
    await shop.check_as_wanted()


async def test_removed_resources_are_skipped_and_canceled_steps_left_out(shop: Shop) -> None:
    resource = "environments.production.heartbeats.backup"

    async def remove() -> None:
        await shop.change("DELETE", "old-2")

    async def cancel() -> None:
        await shop.move_step(_find(await shop.read_run(), resource), "cancel")

    shop.people["started", "environments.production"] = cancel
    shop.people["started", "environments.old-2"] = remove
    async with shop.working():
        run = await shop.ended()
        assert run["status"] == "canceled"
        assert _statuses(run) == {"succeeded": COUNT - 1, "canceled": 1}
        assert _find(run, "environments.old-2")["status"] == "succeeded"
        assert shop.people == {}
        (left,) = (await shop.configure("POST", "plan", WISH))["actions"]
        assert left["resource"] == resource
        await shop.move_step(_find(run, resource), "retry")
        assert (await shop.ended())["status"] == "succeeded"
    await shop.check_as_wanted()


# On Postgres people and the worker write concurrently, on SQLite in turn.
@pytest.mark.both_databases
@pytest.mark.parametrize("fifty", [pytest.param("sqlite", marks=pytest.mark.full), "postgres"], indirect=True)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.full)])
async def test_people_make_changes_continuously(shop: Shop, seed: int) -> None:
    counts: Counter[str] = Counter()
    chances = [random.Random(2 * seed + one) for one in range(2)]
    errors = []
    async with shop.working():
        enough, free = asyncio.Event(), asyncio.Event()
        free.set()
        async with asyncio.TaskGroup() as people:
            for chance in chances:
                people.create_task(_make_changes(shop, chance, counts, enough, free))
            applied = 0
            # Repeat until people have made a few changes during the run.
            while applied < 3 or not _is_lively(counts):
                ended = await _apply_among_people(shop, free)
                errors += [one["error"] for one in ended["operations"] if one["status"] == "failed"]
                applied += 1
            enough.set()
        await shop.ended()
        assert (await shop.apply_anew())["status"] == "succeeded"
    assert _is_lively(counts), counts
    assert [error for error in errors if not error.endswith("make a new review.")] == []
    await shop.check_as_wanted()


def _is_lively(counts: Counter[str]) -> bool:
    return counts.total() > 20 and len(counts) > 4


async def _make_changes(
    shop: Shop, chance: random.Random, counts: Counter[str], enough: asyncio.Event, free: asyncio.Event
) -> None:
    """Make random changes until `enough` is set; the API may refuse them."""
    while not enough.is_set():
        await free.wait()
        slug = chance.choice(["production", "staging", "qa", "careful", "canary", "old-1", "old-2"])
        change = chance.choice([_scale, _change_state, _rename, _lock, _remove, _create, _cancel_or_retry])
        try:
            await change(shop, slug, chance)
            counts[change.__name__] += 1
        except RequestRefused:
            counts["refused"] += 1
        # A pause between two changes, or the worker would have hardly any time.
        await asyncio.sleep(0.02)


async def _scale(shop: Shop, slug: str, chance: random.Random) -> None:
    await shop.scale(slug, chance.randint(1, 9))


async def _change_state(shop: Shop, slug: str, chance: random.Random) -> None:
    state = chance.choice(["running", "hibernated"])
    await shop.change("PATCH", slug, "/runtime", {"state": state})


async def _rename(shop: Shop, slug: str, chance: random.Random) -> None:
    await shop.change("PATCH", slug, body={"name": f"Name {chance.random()}"})


async def _lock(shop: Shop, slug: str, chance: random.Random) -> None:
    await shop.change("PUT", slug, "/lock", {"reason": "Nobody deploys now."})


async def _remove(shop: Shop, slug: str, chance: random.Random) -> None:
    # The document keeps a variable of this one.
    if slug != "production":
        await shop.change("DELETE", slug)


async def _create(shop: Shop, slug: str, chance: random.Random) -> None:
    path = f"projects/{shop.fifty.project_id}/environments"
    await shop.request("POST", path, {"name": slug, "slug": slug, "type": "staging"})


async def _cancel_or_retry(shop: Shop, slug: str, chance: random.Random) -> None:
    step = chance.choice((await shop.read_run())["operations"])
    await shop.ask(step, chance.choice(["cancel", "retry"]))


async def _apply_among_people(shop: Shop, free: asyncio.Event) -> Any:
    """Review and apply, again whenever the project has changed in between; return the finished run."""
    tries = 0
    try:
        async with asyncio.timeout(_SECONDS):
            while True:
                await until_ended(shop.sessions)
                review = await shop.configure("POST", "reviews", WISH)
                status, result = await shop.call("POST", f"{shop.configuration}/reviews/{review['id']}/apply")
                if status == 200:
                    break
                assert status == 409, result
                tries += 1
                if tries == _MOST_TRIES:
                    # People could always be faster: let them finish and wait.
                    free.clear()
    finally:
        free.set()
    return await shop.ended(result["data"]["id"])
