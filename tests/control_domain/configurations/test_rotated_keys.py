"""Rotation of the sealing key while reviews are open and steps wait."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from control_domain.audit import Actor
from control_domain.configurations.start_run import start_run
from control_domain.key_rotation import Resealed, reseal
from control_domain.sealing import CannotOpen, SealingKeys
from control_domain.tables.configuration import Review, RunStep
from control_domain.tables.projects import Environment
from control_domain.variables.versions import find_newest_variables, open_variables
from tests.support.deploy_platform import environment_path
from tests.support.reviewed_project import ReviewedProject, statuses

_OLD, _NEW = "the old secret of the test; long enough", "the new secret of the test; long enough"
OLD, BOTH, NEW = (SealingKeys.read(text) for text in (_OLD, f"{_NEW},{_OLD}", _NEW))
BEFORE = """\
environments:
  staging: {variables: {A: "1", B: "1", GONE: "1"}}
  production: {variables: {A: "1"}}
"""
# Changed, new, removed and unchanged variables. One of them gets the value of another one.
DOCUMENT = """\
environments:
  development: {variables: {A: "1"}}
  staging: {replicas: 2, variables: {A: "2", B: {keep: true}, C: "${token}"}}
  production: {variables: {A: "${token}"}}
delete: [environments.staging.variables.GONE]
"""
BINDINGS = {"token": "hunter2 hunter2 hunter2"}
VALUES = {
    "development": {"A": "1"},
    "staging": {"A": "2", "B": "1", "C": BINDINGS["token"]},
    "production": {"A": BINDINGS["token"]},
}


def _use(reviewed: ReviewedProject, keys: SealingKeys) -> None:
    """Use these keys like a restarted control plane."""
    reviewed.platform.app.state.variable_keys = keys


@pytest.fixture
async def rotated(reviewed: ReviewedProject) -> ReviewedProject:
    """The project, whose variables the old key has sealed."""
    _use(reviewed, OLD)
    await reviewed.apply_document(BEFORE)
    return reviewed


def test_keys_know_the_digests_of_each_of_them() -> None:
    was = BOTH.with_current_key(OLD.key_id)
    assert was.digest("1", "prj_1") == OLD.digest("1", "prj_1") != BOTH.digest("1", "prj_1")
    assert BOTH.with_current_key(NEW.key_id).digest("1", "prj_1") == NEW.digest("1", "prj_1")
    # Both open the same values.
    assert was.open(NEW.seal({"A": "1"}, "env_1"), "env_1") == {"A": "1"}
    with pytest.raises(CannotOpen, match="PHAROS_VARIABLES_KEY"):
        NEW.with_current_key(OLD.key_id)


async def _reseal(reviewed: ReviewedProject, keys: SealingKeys = BOTH) -> Resealed:
    async with reviewed.platform.sessions() as session, session.begin():
        return await reseal(session, keys, 500)


async def _check_done(reviewed: ReviewedProject, result: Any) -> None:
    assert result["status"] == "succeeded", result
    await _reseal(reviewed)
    for slug, values in VALUES.items():
        async with reviewed.platform.sessions() as session:
            number = reviewed.platform.acme.environment(f"blog/{slug}").id
            environment = await session.get_one(Environment, number)
            row = await find_newest_variables(session, environment)
            assert open_variables(NEW, row, environment.public_id) == values


async def test_an_open_review_is_applied_with_the_new_key_alone(rotated: ReviewedProject) -> None:
    review = await rotated.review(DOCUMENT, BINDINGS)
    resealed = await _reseal(rotated)
    assert (resealed.done > 0, resealed.left) == (True, 0)
    assert await _reseal(rotated) == Resealed(0, 0)
    _use(rotated, NEW)
    answer = await rotated.apply(review)
    assert answer.status == 200, answer
    await _check_done(rotated, await rotated.work(answer.data["id"]))


async def test_pending_steps_are_applied_with_the_new_key_alone(rotated: ReviewedProject) -> None:
    run = await rotated.begin(DOCUMENT, BINDINGS)
    assert (await _reseal(rotated)).left == 0
    _use(rotated, NEW)
    await _check_done(rotated, await rotated.work(run["id"]))


@pytest.mark.parametrize("when", ["before it is applied", "before it is carried out"])
async def test_nothing_has_to_be_sealed_again_first(rotated: ReviewedProject, when: str) -> None:
    review = await rotated.review(DOCUMENT, BINDINGS)
    if when == "before it is applied":
        _use(rotated, BOTH)
    answer = await rotated.apply(review)
    assert answer.status == 200, answer
    _use(rotated, BOTH)
    await _check_done(rotated, await rotated.work(answer.data["id"]))


async def test_steps_are_retried_with_the_new_key_alone(
    rotated: ReviewedProject,
) -> None:
    run = await rotated.begin(DOCUMENT, BINDINGS)
    numbers = [step["id"] for step in run["operations"]]
    assert (await rotated.move_step(run["id"], numbers[2], "cancel")).status == 200
    await rotated.platform.change("blog/staging", desired_replicas=7)
    result = await rotated.work(run["id"])
    assert statuses(result) == ["succeeded", "failed", "canceled"]
    await rotated.platform.change("blog/staging", desired_replicas=1)
    assert (await _reseal(rotated)).left == 0
    _use(rotated, NEW)
    async with rotated.working():
        for number in numbers[1:]:
            assert (await rotated.move_step(run["id"], number, "retry")).status == 200
        async with asyncio.timeout(120):
            while (result := await rotated.finished(run["id"]))["status"] != "succeeded":
                assert "failed" not in statuses(result)
    await _check_done(rotated, result)


@pytest.mark.parametrize("first", ["the change", "the key"])
async def test_resealing_keeps_the_review_of_a_changed_project_out_of_date(
    rotated: ReviewedProject, first: str
) -> None:
    async def change() -> None:
        path = environment_path(rotated.platform.acme.places["blog/staging"], "variables")
        assert (await rotated.platform.call("PUT", path, {"variables": "A=3\nB=1\nGONE=1"})).status == 200

    review, run = await rotated.review(DOCUMENT, BINDINGS), None
    if first == "the change":
        await change()
        await _reseal(rotated)
        _use(rotated, NEW)
    else:
        await _reseal(rotated)
        _use(rotated, NEW)
        await change()
    assert (await rotated.apply(review)).problem == (409, "project-changed")
    # The same holds for a single value, if a configuration run was started.
    run = await rotated.begin(DOCUMENT, BINDINGS)
    _use(rotated, NEW)
    path = environment_path(rotated.platform.acme.places["blog/staging"], "variables")
    assert (await rotated.platform.call("PUT", path, {"variables": "A=4\nB=1\nGONE=1"})).status == 200
    result = await rotated.work(run["id"])
    assert statuses(result) == ["succeeded", "failed", "pending"]
    assert "variables.A" in result["operations"][1]["error"]


@pytest.mark.both_databases
async def test_a_step_whose_variable_was_changed_fails_after_resealing(rotated: ReviewedProject) -> None:
    run = await rotated.begin(DOCUMENT, BINDINGS)
    path = environment_path(rotated.platform.acme.places["blog/staging"], "variables")
    assert (await rotated.platform.call("PUT", path, {"variables": "A=3\nB=1\nGONE=1"})).status == 200
    assert (await _reseal(rotated)).left == 0
    _use(rotated, NEW)
    result = await rotated.work(run["id"])
    assert statuses(result) == ["succeeded", "failed", "pending"]
    assert result["operations"][1]["error"] == (
        "environments.staging was changed meanwhile: variables.A; make a new review."
    )


async def test_without_the_old_key_nothing_is_changed(rotated: ReviewedProject) -> None:
    await rotated.review(DOCUMENT, BINDINGS)
    before = await rotated.platform.contents()
    with pytest.raises(CannotOpen):
        await _reseal(rotated, NEW)
    assert await rotated.platform.contents() == before


@pytest.mark.both_databases
async def test_a_review_applied_during_resealing_does_not_get_its_secrets_back(
    rotated: ReviewedProject,
) -> None:
    assert (await _reseal(rotated)).left == 0
    _use(rotated, SealingKeys.read(f"{_OLD},{_NEW}"))
    number = await rotated.review(DOCUMENT, BINDINGS)
    async with rotated.platform.sessions() as session:
        async with session.begin():
            await start_run(session, BOTH, rotated.project, number, Actor("test"), datetime.now(UTC))
            # The other transaction sees the former review, and waits for the end of this one.
            resealing = asyncio.create_task(_reseal(rotated))
            await asyncio.sleep(0.2)
            assert not resealing.done()
        assert (await resealing) == Resealed(0, 0)
    (review,) = await rotated.rows(Review, Review.id == number)
    assert (review.sealed, review.key_id) == (None, None)


@pytest.mark.both_databases
async def test_resealing_runs_next_to_the_worker(rotated: ReviewedProject) -> None:
    review = await rotated.review(DOCUMENT, BINDINGS)
    _use(rotated, BOTH)
    async with rotated.working():
        answer, *_ = await asyncio.gather(rotated.apply(review), *(_reseal(rotated) for _ in range(4)))
        assert answer.status == 200
        result = await rotated.finished(answer.data["id"])
        assert (await _reseal(rotated)).left == 0
    assert [row.sealed for row in await rotated.rows(Review, Review.id == review)] == [None]
    rows = await rotated.rows(RunStep, RunStep.run_id == result["id"])
    assert [row.sealed for row in rows] == [None] * 3
    await _check_done(rotated, result)
