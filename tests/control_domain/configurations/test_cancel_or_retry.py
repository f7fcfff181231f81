"""Cancelling and retrying steps: the conditions and the results."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from control_domain.configurations.addresses import PROJECT
from control_domain.configurations.plan import Action, Change
from control_domain.tables.audit import AuditEntry
from control_domain.tables.configuration import RunStep
from control_domain.tables.monitors import Queue
from control_domain.tables.projects import Project
from pipeline_contracts.deploy_states import StepStatus
from tests.support.deploy_platform import Platform, Response
from tests.support.reviewed_project import ReviewedProject, statuses
from tests.support.reviews import add_run

P, R, S, F, C = StepStatus
_LETTERS = dict(zip("PRSFC", StepStatus, strict=True))

# Statuses of the steps by their first letters, the index of one, its transition; the response's status, the statuses
# of the steps afterwards, and the status of the run.
NEWEST = """
P    0 cancel 200 C    canceled
R    0 cancel 409 R    running
S    0 cancel 409 S    succeeded
F    0 cancel 409 F    failed
C    0 cancel 409 C    canceled
P    0 retry  409 P    running
R    0 retry  409 R    running
S    0 retry  409 S    succeeded
F    0 retry  200 P    running
C    0 retry  200 P    running
PP   0 cancel 200 CP   running
RP   1 cancel 200 RC   running
SP   1 cancel 200 SC   canceled
FP   1 cancel 200 FC   failed
CP   1 cancel 200 CC   canceled
SPS  1 cancel 200 SCS  canceled
FPP  2 cancel 200 FPC  failed
SFP  1 cancel 409 SFP  failed
SFP  0 cancel 409 SFP  failed
RPC  2 cancel 409 RPC  running
FP   0 retry  200 PP   running
FP   1 retry  409 FP   failed
SFP  1 retry  200 SPP  running
SC   1 retry  200 SP   running
CS   0 retry  200 PS   running
CF   0 retry  200 PF   running
FC   1 retry  200 FP   failed
FCP  0 retry  200 PCP  running
CRP  0 retry  200 PRP  running
CP   1 retry  409 CP   running
SSS  1 retry  409 SSS  succeeded
"""
# With a later run: no step can be retried.
EARLIER = """
P    0 cancel 200 C    canceled
S    0 cancel 409 S    succeeded
F    0 cancel 409 F    failed
C    0 cancel 409 C    canceled
P    0 retry  409 P    running
S    0 retry  409 S    succeeded
F    0 retry  409 F    failed
C    0 retry  409 C    canceled
FC   0 retry  409 FC   failed
FC   1 retry  409 FC   failed
SC   1 retry  409 SC   canceled
FP   1 cancel 200 FC   failed
"""


def _rows(table: str) -> list[Sequence[str]]:
    return [line.split() for line in table.strip().splitlines()]


async def _add(reviewed: ReviewedProject, letters: str) -> tuple[int, list[int]]:
    """Add the newest run, with steps of these statuses; return their IDs."""
    async with reviewed.platform.sessions() as session, session.begin():
        project = await session.get_one(Project, reviewed.project.id)
        action = Action("update", PROJECT, [Change("name", project.name, "Another")])
        statuses = [_LETTERS[letter] for letter in letters]
        run, steps = await add_run(
            session, reviewed.keys, project, [action] * len(letters), statuses, datetime.now(UTC)
        )
        return run.id, [step.id for step in steps]


async def _check(reviewed: ReviewedProject, run: int, steps: list[int], row: Sequence[str]) -> None:
    _, index, transition, status, after, run_status = row
    before = await reviewed.platform.contents()
    answer = await reviewed.move_step(run, steps[int(index)], transition)
    assert answer.status == int(status)
    if answer.status == 409:
        assert answer.problem == (409, "operation-not-possible")
        assert answer.json()["detail"].endswith(".")
        assert await reviewed.platform.contents() == before
    else:
        is_canceled = transition == "cancel"
        assert answer.data["status"] == ("canceled" if is_canceled else "pending")
        assert answer.data["error"] is None
        assert (answer.data["finished_at"] is not None) is is_canceled
    result = await reviewed.read(run)
    assert statuses(result) == [_LETTERS[letter] for letter in after]
    assert result["status"] == run_status
    assert (result["finished_at"] is None) is (run_status == "running")
    if answer.status == 200:
        assert result["operations"][int(index)] == answer.data


@pytest.mark.parametrize("row", _rows(NEWEST), ids=" ".join)
async def test_transitions_in_the_newest_run(reviewed: ReviewedProject, row: Sequence[str]) -> None:
    await _check(reviewed, *await _add(reviewed, row[0]), row)


@pytest.mark.parametrize("row", _rows(EARLIER), ids=" ".join)
async def test_transitions_in_an_earlier_run(reviewed: ReviewedProject, row: Sequence[str]) -> None:
    run, steps = await _add(reviewed, row[0])
    # At most one run is running.
    await _add(reviewed, "F" if "P" in row[0] else "PP")
    await _check(reviewed, run, steps, row)


async def test_a_step_of_another_run_is_404(reviewed: ReviewedProject) -> None:
    run, steps = await _add(reviewed, "FP")
    other, others = await _add(reviewed, "FC")
    before = await reviewed.platform.contents()
    for numbers in ((run, others[1]), (other, steps[1]), (run, 2_000_000_000)):
        for transition in ("cancel", "retry"):
            answer = await reviewed.move_step(*numbers, transition)
            assert answer.problem == (404, "not-found")
    assert await reviewed.platform.contents() == before


async def test_the_audit_log_names_the_person(reviewed: ReviewedProject) -> None:
    run, steps = await _add(reviewed, "FP")
    for place, transition in ((1, "cancel"), (0, "retry")):
        assert (await reviewed.move_step(run, steps[place], transition, who="admin")).status == 200
    entries = (await reviewed.audited())[-2:]
    assert entries == [
        ("configuration.cancel", {"application": run, "operation": steps[1]}),
        ("configuration.retry", {"application": run, "operation": steps[0]}),
    ]
    (entry,) = (await reviewed.rows(AuditEntry))[-1:]
    assert entry.person_id == reviewed.platform.acme.people["admin"].id
    assert entry.subject == f"project {reviewed.project.public_id}"


async def test_a_repeated_idempotency_key_returns_the_first_response(reviewed: ReviewedProject) -> None:
    run, steps = await _add(reviewed, "PP")
    first = await reviewed.move_step(run, steps[0], "cancel", key="k")
    assert (await reviewed.move_step(run, steps[0], "cancel")).status == 409
    again = await reviewed.move_step(run, steps[0], "cancel", key="k")
    assert (again.status, again.body) == (200, first.body)
    for numbers in ((steps[0], "retry"), (steps[1], "cancel")):
        answer = await reviewed.move_step(run, *numbers, key="k")
        assert (answer.problem, answer.fields) == ((422, "validation-failed"), ["Idempotency-Key"])


@pytest.mark.both_databases
async def test_of_many_concurrent_retries_one_succeeds(reviewed: ReviewedProject) -> None:
    run, steps = await _add(reviewed, "SF")
    answers = await asyncio.gather(
        *(reviewed.move_step(run, steps[1], "retry", key=f"key {n}") for n in range(30))
    )
    assert Counter(answer.status for answer in answers) == {200: 1, 409: 29}
    assert [action for action, _ in await reviewed.audited()].count("configuration.retry") == 1


async def test_only_maintainers_cancel_or_retry_steps_that_manage(platform: Platform) -> None:
    """Otherwise a deployer could retry a removal that a maintainer has canceled."""
    shop = ReviewedProject(platform, "shop")
    answer = await shop.apply(
        await shop.review(
            "project: {name: The shop}\n"
            "environments: {production: {locked: true}, staging: {replicas: 2}}\n"
            "delete: [environments.development]\n"
        ),
        who="maintainer",
    )
    number, steps = answer.data["id"], answer.data["operations"]
    protecting = {
        "project": True,
        "environments.development": True,
        "environments.production": True,
        "environments.staging": False,
    }
    assert {one["resource"] for one in steps} == set(protecting)
    for step in steps:
        for transition in ("cancel", "retry"):
            before = await platform.contents()
            for who in ("viewer", "stranger", *(["deployer"] if protecting[step["resource"]] else [])):
                answer = await shop.move_step(number, step["id"], transition, who=who)
                assert answer.problem == (403, "deploy-not-allowed")
            assert await platform.contents() == before
            who = "maintainer" if protecting[step["resource"]] else "deployer"
            assert (await shop.move_step(number, step["id"], transition, who=who)).status == 200


QUEUES = "environments: {staging: {queues: {q0: {}, q1: {}, q2: {}, q3: {}}}}\n"


async def _queues(reviewed: ReviewedProject) -> list[str]:
    environment = reviewed.platform.acme.environment("blog/staging").id
    return [queue.name for queue in await reviewed.rows(Queue, Queue.environment_id == environment)]


async def test_the_remaining_steps_continue_without_canceled_ones(reviewed: ReviewedProject) -> None:
    run = await reviewed.begin(QUEUES)
    steps = [one["id"] for one in run["operations"]]
    for place in (0, 2):
        assert (await reviewed.move_step(run["id"], steps[place], "cancel")).status == 200
    result = await reviewed.work(run["id"])
    assert statuses(result) == [C, S, C, S]
    assert result["status"] == "canceled"
    assert [one["attempts"] for one in result["operations"]] == [0, 1, 0, 1]
    assert await _queues(reviewed) == ["q1", "q3"]
    # A retry applies it alone.
    async with reviewed.working():
        assert (await reviewed.move_step(run["id"], steps[2], "retry")).status == 200
        result = await reviewed.finished(run["id"])
    assert (statuses(result), result["status"]) == ([C, S, S, S], "canceled")
    assert await _queues(reviewed) == ["q1", "q3", "q2"]


@pytest.mark.both_databases
async def test_a_run_whose_steps_are_all_canceled_is_finished(reviewed: ReviewedProject) -> None:
    run = await reviewed.begin(QUEUES)
    for step in run["operations"]:
        assert (await reviewed.move_step(run["id"], step["id"], "cancel")).status == 200
    result = await reviewed.read(run["id"])
    assert (result["status"], result["finished_at"] is None) == ("canceled", False)
    assert await _queues(reviewed) == []
    assert (await reviewed.apply(await reviewed.review(QUEUES))).status == 200


FOUR = """\
environments:
  development: {name: Dev}
  staging: {replicas: 3, queues: {q0: {}}}
  production: {name: Live}
"""


async def _fail_second(reviewed: ReviewedProject) -> int:
    """Start a run of four steps whose second step fails, because a person scales the environment."""
    run = await reviewed.begin(FOUR)
    await reviewed.platform.change("blog/staging", desired_replicas=7)
    result = await reviewed.work(run["id"])
    assert (statuses(result), result["status"]) == ([S, F, P, P], "failed")
    number: int = run["id"]
    return number


async def _name(reviewed: ReviewedProject, slug: str) -> object:
    return (await reviewed.fields("environments", slug) or {})["name"]


async def test_failure_stops_later_steps_and_has_advice(reviewed: ReviewedProject) -> None:
    result = await reviewed.read(await _fail_second(reviewed))
    failed = result["operations"][1]
    assert failed["error"] == "environments.staging was changed meanwhile: replicas; make a new review."
    assert (failed["attempts"], failed["started_at"] is None, failed["finished_at"] is None) == (
        1,
        False,
        False,
    )
    for waiting in result["operations"][2:]:
        assert (waiting["attempts"], waiting["started_at"], waiting["error"]) == (0, None, None)
    assert (await _name(reviewed, "development"), await _name(reviewed, "production")) == (
        "Dev",
        "Production",
    )
    # A worker does not retry it.
    async with reviewed.working() as worker:
        worker.wake()
        await asyncio.sleep(0.3)
    assert await reviewed.read(result["id"]) == result


async def test_a_retried_step_continues_with_the_rest(reviewed: ReviewedProject) -> None:
    number = await _fail_second(reviewed)
    second = (await reviewed.read(number))["operations"][1]["id"]
    async with reviewed.working():
        # Without a fix it fails again.
        assert (await reviewed.move_step(number, second, "retry")).status == 200
        result = await reviewed.finished(number)
        assert (statuses(result), result["status"]) == ([S, F, P, P], "failed")
        assert [one["attempts"] for one in result["operations"]] == [1, 2, 0, 0]
        await reviewed.platform.change("blog/staging", desired_replicas=1)
        answer = await reviewed.move_step(number, second, "retry")
        assert (answer.data["status"], answer.data["error"], answer.data["finished_at"]) == (
            "pending",
            None,
            None,
        )
        result = await reviewed.finished(number)
    assert (statuses(result), result["status"]) == ([S, S, S, S], "succeeded")
    assert [one["attempts"] for one in result["operations"]] == [1, 3, 1, 1]
    assert await _name(reviewed, "production") == "Live"
    assert (await reviewed.fields("environments", "staging") or {})["replicas"] == 3


async def test_new_review_cancels_steps_left_pending_by_a_failure(reviewed: ReviewedProject) -> None:
    """Pending steps of the older run are canceled and cannot be retried."""
    number = await _fail_second(reviewed)
    third = (await reviewed.read(number))["operations"][2]["id"]
    assert (await reviewed.move_step(number, third, "cancel")).status == 200
    newer = await reviewed.begin("environments: {production: {name: Other}}\n")
    result = await reviewed.read(number)
    assert (statuses(result), result["status"]) == ([S, F, C, C], "failed")
    assert result["operations"][2]["error"] is None
    assert result["operations"][3]["error"] == f"Canceled: application {newer['id']} came first."
    for step in result["operations"][1:]:
        answer = await reviewed.move_step(number, step["id"], "retry")
        assert answer.problem == (409, "operation-not-possible")
        assert f"Application {newer['id']}" in answer.json()["detail"]
    rows = await reviewed.rows(RunStep, RunStep.run_id == number)
    assert [(row.sealed, row.key_id) for row in rows] == [(None, None)] * 4
    assert (await reviewed.work(newer["id"]))["status"] == "succeeded"
    assert await _name(reviewed, "production") == "Other"
    assert statuses(await reviewed.read(number)) == [S, F, C, C]


@pytest.mark.both_databases
@pytest.mark.parametrize("turn", [0, 1, *(pytest.param(turn, marks=pytest.mark.full) for turn in (2, 3))])
async def test_a_concurrent_retry_and_new_run_never_both_succeed(
    reviewed: ReviewedProject, turn: int
) -> None:
    number = await _fail_second(reviewed)
    second = (await reviewed.read(number))["operations"][1]["id"]
    review = await reviewed.review("")

    async def retry() -> tuple[str, Response]:
        return "retry", await reviewed.move_step(number, second, "retry")

    async def apply() -> tuple[str, Response]:
        return "apply", await reviewed.apply(review)

    calls = [retry(), apply()]
    answers = dict(await asyncio.gather(*(calls if turn % 2 else calls[::-1])))
    if answers["retry"].status == 200:
        assert answers["apply"].problem == (409, "application-running")
        assert statuses(await reviewed.read(number)) == [S, P, P, P]
    else:
        assert answers["retry"].problem == (409, "operation-not-possible")
        assert answers["apply"].status == 200
        assert statuses(await reviewed.read(number)) == [S, F, C, C]


@pytest.mark.parametrize(
    "turn",
    [
        0,
        pytest.param(1, marks=pytest.mark.both_databases),
        *(pytest.param(turn, marks=pytest.mark.full) for turn in (2, 3)),
    ],
)
async def test_canceled_steps_are_not_applied(reviewed: ReviewedProject, turn: int) -> None:
    """Cancel from the last step on while the worker applies steps from the first one on."""
    names = [f"q{n:02}" for n in range(24)]
    queues = ", ".join(f"{name}: {{}}" for name in names)
    run = await reviewed.begin(f"environments: {{staging: {{queues: {{{queues}}}}}}}\n")
    numbers = [step["id"] for step in run["operations"]]

    async def cancel(some: Sequence[int]) -> dict[int, int]:
        return {number: (await reviewed.move_step(run["id"], number, "cancel")).status for number in some}

    async with reviewed.working():
        back = numbers[::-1]
        answers = await asyncio.gather(*(cancel(back[n :: turn + 1]) for n in range(turn + 1)))
        result = await reviewed.finished(run["id"])
    given = {number: status for some in answers for number, status in some.items()}
    made = Counter(await _queues(reviewed))
    audited = Counter(
        details["name"] for action, details in await reviewed.audited() if action == "queue.create"
    )
    for name, step in zip(names, result["operations"], strict=True):
        assert step["status"] in (S, C)
        is_canceled = step["status"] == C
        assert given[step["id"]] == (200 if is_canceled else 409)
        assert (made[name], audited[name]) == ((0, 0) if is_canceled else (1, 1))
        assert step["attempts"] == (0 if is_canceled else 1)
    assert result["status"] == ("canceled" if C in statuses(result) else "succeeded")


@pytest.mark.both_databases
async def test_a_step_canceled_as_it_starts_is_either_applied_or_canceled(reviewed: ReviewedProject) -> None:
    outcomes = Counter[str]()
    async with reviewed.working():
        for turn in range(16):
            run = await reviewed.begin(f"environments: {{staging: {{queues: {{r{turn}: {{}}}}}}}}\n")
            (step,) = run["operations"]
            # The worker may have started it.
            await asyncio.sleep(0.002 * turn)
            answer = await reviewed.move_step(run["id"], step["id"], "cancel")
            result = await reviewed.finished(run["id"])
            outcomes[result["status"]] += 1
            is_canceled = answer.status == 200
            assert statuses(result) == [C if is_canceled else S]
            assert (f"r{turn}" in await _queues(reviewed)) is not is_canceled
    assert set(outcomes) <= {"succeeded", "canceled"}
