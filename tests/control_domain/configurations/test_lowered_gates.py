"""Lowering the gate of an environment needs a second person, by every kind of change."""

import pytest
from sqlalchemy import update

from control_domain.tables.configuration import ConfigurationRun, Review, RunStep
from control_domain.tables.projects import Environment
from tests.support.deploy_platform import Platform
from tests.support.reviewed_project import ReviewedProject

_WINDOW = "{days: [mon, tue], from: '09:00', to: '16:00', timezone: UTC}"
_GATED = f"""\
environments:
  production: {{approval: {{deploys: true, variables: true}}, window: {_WINDOW}}}
  staging: {{window: {_WINDOW}}}
"""


def _production(change: str) -> str:
    return f"environments: {{production: {{{change}}}}}"


def _window(days: str = "[mon, tue]", begin: str = "09:00", end: str = "16:00", zone: str = "UTC") -> str:
    return _production(f"window: {{days: {days}, from: '{begin}', to: '{end}', timezone: {zone}}}")


# Changes of a project in the state `_GATED`.
LOWERING = {
    "no approval of deploys": _production("approval: {deploys: false}"),
    "no approval of variables": _production("approval: {variables: false}"),
    "no window": _production("window: null"),
    "a day more": _window("[mon, tue, wed]"),
    "an hour more": _window(end="17:00"),
    "over night": _window(begin="17:00", end="08:00"),
    "the whole day": _window(begin="00:00", end="00:00"),
    "another time zone": _window(zone="Asia/Tokyo"),
    "removed": "delete: [environments.production]",
    "removed next to a harmless change": "environments: {staging: {replicas: 2}}\ndelete: [environments.production]",
    "lowered together with variables": _production("approval: {variables: false}, variables: {A: '1'}"),
}
KEEPING = {
    "a day less": _window("[mon]"),
    "an hour less": _window(begin="10:00"),
    "other settings": _production("replicas: 3, branch: live"),
    "no window without approvals": "environments: {staging: {window: null}}",
    "removed without approvals": "delete: [environments.staging]",
    "a gate more": "environments: {staging: {approval: {deploys: true}}}",
}


@pytest.fixture
async def gated(reviewed: ReviewedProject) -> ReviewedProject:
    """A project in the state `_GATED`, with members in all roles."""
    reviewed.slug = "shop"
    await reviewed.apply_document(_GATED)
    return reviewed


async def _review(gated: ReviewedProject, document: str, who: str) -> int:
    answer = await gated.ask("reviews", document, who=who)
    assert answer.status == 201, answer
    return int(answer.data["id"])


@pytest.mark.parametrize("document", LOWERING.values(), ids=LOWERING)
async def test_a_gate_is_lowered_by_two_people(gated: ReviewedProject, document: str) -> None:
    number = await _review(gated, document, "maintainer")
    before = await gated.platform.contents()
    answer = await gated.apply(number, who="maintainer")
    assert answer.problem == (403, "deploy-not-allowed"), answer
    assert "A second person has to agree" in answer.json()["detail"]
    assert (await gated.apply(number, who="deployer")).problem == (403, "deploy-not-allowed")
    assert await gated.platform.contents() == before
    assert (await gated.apply(number, who="admin")).status == 200


@pytest.mark.parametrize("document", KEEPING.values(), ids=KEEPING)
async def test_a_run_that_lowers_no_gate_needs_one_person(gated: ReviewedProject, document: str) -> None:
    assert (await gated.apply(await _review(gated, document, "maintainer"), who="maintainer")).status == 200


async def test_a_review_without_an_author_lowers_no_gate(gated: ReviewedProject) -> None:
    """Its author may be the person who applies it."""
    number = await _review(gated, LOWERING["no window"], "maintainer")
    await gated.change(Review, number, made_by_id=None)
    assert (await gated.apply(number, who="admin")).problem == (403, "deploy-not-allowed")


async def test_a_gate_raised_since_the_review_counts(gated: ReviewedProject) -> None:
    number = await _review(gated, "delete: [environments.staging]", "maintainer")
    await _raise_staging(gated)
    assert (await gated.apply(number, who="maintainer")).problem == (409, "project-changed")


async def _raise_staging(gated: ReviewedProject) -> None:
    async with gated.platform.sessions() as session, session.begin():
        mine = Environment.id == _staging(gated.platform)
        await session.execute(update(Environment).where(mine).values(deploys_need_approval=True))


async def _window_of_staging(gated: ReviewedProject) -> object:
    fields = await gated.fields("environments", "staging")
    assert fields is not None
    return fields["window"]


_UNGUARDED = KEEPING["no window without approvals"]


async def test_a_retry_lowers_a_gate_that_was_raised_since_by_two_people(gated: ReviewedProject) -> None:
    run = (await gated.apply(await _review(gated, _UNGUARDED, "maintainer"), who="maintainer")).data
    number, step = run["id"], run["operations"][0]["id"]
    assert (await gated.move_step(number, step, "cancel", who="maintainer")).status == 200
    await _raise_staging(gated)
    before = await gated.platform.contents()
    for who in ("maintainer", "deployer"):
        answer = await gated.move_step(number, step, "retry", who=who)
        assert answer.problem == (403, "deploy-not-allowed"), answer
    assert await gated.platform.contents() == before
    assert (await gated.move_step(number, step, "retry", who="admin")).status == 200
    action, details = (await gated.audited())[-1]
    assert (action, details["lowered"]) == (
        "configuration.retry",
        ["limits of the deploy window of environments.staging"],
    )
    await gated.work(number)
    assert await _window_of_staging(gated) is None


@pytest.mark.parametrize(
    "document", [_UNGUARDED, KEEPING["removed without approvals"]], ids=["window", "removed"]
)
async def test_a_gate_raised_before_the_step_is_applied_counts(gated: ReviewedProject, document: str) -> None:
    run = (await gated.apply(await _review(gated, document, "maintainer"), who="maintainer")).data
    await _raise_staging(gated)
    (step,) = (await gated.work(run["id"]))["operations"]
    assert step["status"] == "failed"
    assert "environments.staging now requires a second person" in step["error"]
    assert step["error"].endswith("make a new review.")
    assert await _window_of_staging(gated) is not None


async def test_the_worker_lowers_approved_gates(gated: ReviewedProject) -> None:
    document = _production("approval: {deploys: false}")
    run = (await gated.apply(await _review(gated, document, "maintainer"), who="admin")).data
    assert (await gated.work(run["id"]))["status"] == "succeeded"


async def test_a_retry_checks_the_gates_of_the_pending_steps_too(gated: ReviewedProject) -> None:
    """The step before is harmless, so any deployer may retry it."""
    document = "environments: {staging: {replicas: 2}, production: {window: null}}"
    run = (await gated.apply(await _review(gated, document, "maintainer"), who="admin")).data
    number, steps = run["id"], run["operations"]
    assert [one["resource"] for one in steps] == ["environments.staging", "environments.production"]
    await gated.change(RunStep, steps[0]["id"], status="failed")
    await gated.change(ConfigurationRun, number, status="failed")
    for who in ("maintainer", "deployer"):
        answer = await gated.move_step(number, steps[0]["id"], "retry", who=who)
        assert answer.problem == (403, "deploy-not-allowed"), answer
    assert (await gated.move_step(number, steps[0]["id"], "retry", who="admin")).status == 200


def _staging(platform: Platform) -> int:
    return platform.acme.environment("shop/staging").id
