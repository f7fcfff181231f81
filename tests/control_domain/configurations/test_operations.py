"""Operations are canceled and tried again: when that is possible, and what comes of it."""

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
from pipeline_contracts.deploy_states import RunStepStatus
from tests.support.deploy_platform import Answer, Platform
from tests.support.reviewed_project import ReviewedProject, statuses
from tests.support.reviews import add_run

P, R, S, F, C = RunStepStatus
_LETTERS = dict(zip("PRSFC", RunStepStatus, strict=True))

# The operations by their first letters, the place of one, what is wished for it; the answer's status, what the
# operations are then, and the application.
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
# Where another application has come since: nothing of this one comes back.
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
    """The newest application, with such operations; their numbers."""
    async with reviewed.platform.sessions() as session, session.begin():
        project = await session.get_one(Project, reviewed.project.id)
        action = Action("update", PROJECT, [Change("name", project.name, "Another")])
        statuses = [_LETTERS[letter] for letter in letters]
        application, operations = await add_run(
            session, reviewed.keys, project, [action] * len(letters), statuses, datetime.now(UTC)
        )
        return application.id, [operation.id for operation in operations]


async def _check(
    reviewed: ReviewedProject, application: int, operations: list[int], row: Sequence[str]
) -> None:
    _, place, wish, status, after, result = row
    before = await reviewed.platform.contents()
    answer = await reviewed.operate(application, operations[int(place)], wish)
    assert answer.status == int(status)
    if answer.status == 409:
        assert answer.problem == (409, "operation-not-possible")
        assert answer.json()["detail"].endswith(".")
        assert await reviewed.platform.contents() == before
    else:
        is_canceled = wish == "cancel"
        assert answer.data["status"] == ("canceled" if is_canceled else "pending")
        assert answer.data["error"] is None
        assert (answer.data["finished_at"] is not None) is is_canceled
    told = await reviewed.read(application)
    assert statuses(told) == [_LETTERS[letter] for letter in after]
    assert told["status"] == result
    assert (told["finished_at"] is None) is (result == "running")
    if answer.status == 200:
        assert told["operations"][int(place)] == answer.data


@pytest.mark.parametrize("row", _rows(NEWEST), ids=" ".join)
async def test_what_is_possible_in_the_newest_application(
    reviewed: ReviewedProject, row: Sequence[str]
) -> None:
    await _check(reviewed, *await _add(reviewed, row[0]), row)


@pytest.mark.parametrize("row", _rows(EARLIER), ids=" ".join)
async def test_what_is_possible_in_an_earlier_one(reviewed: ReviewedProject, row: Sequence[str]) -> None:
    application, operations = await _add(reviewed, row[0])
    # One is running at most.
    await _add(reviewed, "F" if "P" in row[0] else "PP")
    await _check(reviewed, application, operations, row)


async def test_another_ones_operation_is_404(reviewed: ReviewedProject) -> None:
    application, operations = await _add(reviewed, "FP")
    other, others = await _add(reviewed, "FC")
    before = await reviewed.platform.contents()
    for numbers in ((application, others[1]), (other, operations[1]), (application, 2_000_000_000)):
        for wish in ("cancel", "retry"):
            answer = await reviewed.operate(*numbers, wish)
            assert answer.problem == (404, "not-found")
    assert await reviewed.platform.contents() == before


async def test_it_is_noted_who_did_it(reviewed: ReviewedProject) -> None:
    application, operations = await _add(reviewed, "FP")
    for place, wish in ((1, "cancel"), (0, "retry")):
        assert (await reviewed.operate(application, operations[place], wish, who="admin")).status == 200
    entries = (await reviewed.audited())[-2:]
    assert entries == [
        ("configuration.cancel", {"application": application, "operation": operations[1]}),
        ("configuration.retry", {"application": application, "operation": operations[0]}),
    ]
    (entry,) = (await reviewed.rows(AuditEntry))[-1:]
    assert entry.person_id == reviewed.platform.acme.people["admin"].id
    assert entry.subject == f"project {reviewed.project.public_id}"


async def test_a_key_is_answered_as_the_first_time(reviewed: ReviewedProject) -> None:
    application, operations = await _add(reviewed, "PP")
    first = await reviewed.operate(application, operations[0], "cancel", key="k")
    assert (await reviewed.operate(application, operations[0], "cancel")).status == 409
    again = await reviewed.operate(application, operations[0], "cancel", key="k")
    assert (again.status, again.body) == (200, first.body)
    for numbers in ((operations[0], "retry"), (operations[1], "cancel")):
        answer = await reviewed.operate(application, *numbers, key="k")
        assert (answer.problem, answer.fields) == ((422, "validation-failed"), ["Idempotency-Key"])


@pytest.mark.both_databases
async def test_of_many_who_try_it_again_one_does(reviewed: ReviewedProject) -> None:
    application, operations = await _add(reviewed, "SF")
    answers = await asyncio.gather(
        *(reviewed.operate(application, operations[1], "retry", key=f"key {n}") for n in range(30))
    )
    assert Counter(answer.status for answer in answers) == {200: 1, 409: 29}
    assert [action for action, _ in await reviewed.audited()].count("configuration.retry") == 1


async def test_what_protects_is_canceled_and_tried_again_by_maintainers(platform: Platform) -> None:
    """Or whoever may not remove something would bring back what they who may have called off."""
    shop = ReviewedProject(platform, "shop")
    answer = await shop.apply(
        await shop.review(
            "environments: {production: {locked: true}, staging: {replicas: 2}}\n"
            "delete: [environments.development]\n"
        ),
        who="maintainer",
    )
    number, operations = answer.data["id"], answer.data["operations"]
    protecting = {
        "environments.development": True,
        "environments.production": True,
        "environments.staging": False,
    }
    assert {one["resource"] for one in operations} == set(protecting)
    for operation in operations:
        for wish in ("cancel", "retry"):
            before = await platform.contents()
            for who in ("viewer", "stranger", *(["deployer"] if protecting[operation["resource"]] else [])):
                answer = await shop.operate(number, operation["id"], wish, who=who)
                assert answer.problem == (403, "deploy-not-allowed")
            assert await platform.contents() == before
            who = "maintainer" if protecting[operation["resource"]] else "deployer"
            assert (await shop.operate(number, operation["id"], wish, who=who)).status == 200


QUEUES = "environments: {staging: {queues: {q0: {}, q1: {}, q2: {}, q3: {}}}}\n"


async def _queues(reviewed: ReviewedProject) -> list[str]:
    environment = reviewed.platform.acme.environment("blog/staging").id
    return [queue.name for queue in await reviewed.rows(Queue, Queue.environment_id == environment)]


async def test_the_rest_goes_on_without_what_was_canceled(reviewed: ReviewedProject) -> None:
    application = await reviewed.begin(QUEUES)
    operations = [one["id"] for one in application["operations"]]
    for place in (0, 2):
        assert (await reviewed.operate(application["id"], operations[place], "cancel")).status == 200
    told = await reviewed.work(application["id"])
    assert statuses(told) == [C, S, C, S]
    assert told["status"] == "canceled"
    assert [one["attempts"] for one in told["operations"]] == [0, 1, 0, 1]
    assert await _queues(reviewed) == ["q1", "q3"]
    # And it comes back by itself.
    async with reviewed.working():
        assert (await reviewed.operate(application["id"], operations[2], "retry")).status == 200
        told = await reviewed.finished(application["id"])
    assert (statuses(told), told["status"]) == ([C, S, S, S], "canceled")
    assert await _queues(reviewed) == ["q1", "q3", "q2"]


@pytest.mark.both_databases
async def test_when_all_is_canceled_nothing_is_left_to_do(reviewed: ReviewedProject) -> None:
    application = await reviewed.begin(QUEUES)
    for operation in application["operations"]:
        assert (await reviewed.operate(application["id"], operation["id"], "cancel")).status == 200
    told = await reviewed.read(application["id"])
    assert (told["status"], told["finished_at"] is None) == ("canceled", False)
    assert await _queues(reviewed) == []
    assert (await reviewed.apply(await reviewed.review(QUEUES))).status == 200


FOUR = """\
environments:
  development: {name: Dev}
  staging: {replicas: 3, queues: {q0: {}}}
  production: {name: Live}
"""


async def _fail_second(reviewed: ReviewedProject) -> int:
    """Of these four the second one fails, because somebody scales the environment meanwhile."""
    application = await reviewed.begin(FOUR)
    await reviewed.platform.change("blog/staging", desired_replicas=7)
    told = await reviewed.work(application["id"])
    assert (statuses(told), told["status"]) == ([S, F, P, P], "failed")
    number: int = application["id"]
    return number


async def _name(reviewed: ReviewedProject, slug: str) -> object:
    return (await reviewed.fields("environments", slug) or {})["name"]


async def test_a_failure_stops_the_rest_and_says_what_to_do(reviewed: ReviewedProject) -> None:
    told = await reviewed.read(await _fail_second(reviewed))
    failed = told["operations"][1]
    assert failed["error"] == "environments.staging was changed meanwhile: replicas; make a new review."
    assert (failed["attempts"], failed["started_at"] is None, failed["finished_at"] is None) == (
        1,
        False,
        False,
    )
    for waiting in told["operations"][2:]:
        assert (waiting["attempts"], waiting["started_at"], waiting["error"]) == (0, None, None)
    assert (await _name(reviewed, "development"), await _name(reviewed, "production")) == (
        "Dev",
        "Production",
    )
    # A worker leaves it at that.
    async with reviewed.working() as worker:
        worker.wake()
        await asyncio.sleep(0.3)
    assert await reviewed.read(told["id"]) == told


async def test_what_is_tried_again_goes_on_with_the_rest(reviewed: ReviewedProject) -> None:
    number = await _fail_second(reviewed)
    second = (await reviewed.read(number))["operations"][1]["id"]
    async with reviewed.working():
        # Nothing was mended: the same again.
        assert (await reviewed.operate(number, second, "retry")).status == 200
        told = await reviewed.finished(number)
        assert (statuses(told), told["status"]) == ([S, F, P, P], "failed")
        assert [one["attempts"] for one in told["operations"]] == [1, 2, 0, 0]
        await reviewed.platform.change("blog/staging", desired_replicas=1)
        answer = await reviewed.operate(number, second, "retry")
        assert (answer.data["status"], answer.data["error"], answer.data["finished_at"]) == (
            "pending",
            None,
            None,
        )
        told = await reviewed.finished(number)
    assert (statuses(told), told["status"]) == ([S, S, S, S], "succeeded")
    assert [one["attempts"] for one in told["operations"]] == [1, 3, 1, 1]
    assert await _name(reviewed, "production") == "Live"
    assert (await reviewed.fields("environments", "staging") or {})["replicas"] == 3


async def test_a_failure_may_be_left_behind_by_a_new_review(reviewed: ReviewedProject) -> None:
    """What the older one has left undone is called off, and none of it comes back."""
    number = await _fail_second(reviewed)
    third = (await reviewed.read(number))["operations"][2]["id"]
    assert (await reviewed.operate(number, third, "cancel")).status == 200
    newer = await reviewed.begin("environments: {production: {name: Other}}\n")
    told = await reviewed.read(number)
    assert (statuses(told), told["status"]) == ([S, F, C, C], "failed")
    assert told["operations"][2]["error"] is None
    assert told["operations"][3]["error"] == f"Called off: application {newer['id']} came first."
    for operation in told["operations"][1:]:
        answer = await reviewed.operate(number, operation["id"], "retry")
        assert answer.problem == (409, "operation-not-possible")
        assert f"Application {newer['id']}" in answer.json()["detail"]
    rows = await reviewed.rows(RunStep, RunStep.run_id == number)
    assert [(row.sealed, row.key_id) for row in rows] == [(None, None)] * 4
    assert (await reviewed.work(newer["id"]))["status"] == "succeeded"
    assert await _name(reviewed, "production") == "Other"
    assert statuses(await reviewed.read(number)) == [S, F, C, C]


@pytest.mark.both_databases
@pytest.mark.parametrize("turn", [0, 1, *(pytest.param(turn, marks=pytest.mark.full) for turn in (2, 3))])
async def test_a_retry_and_a_new_application_at_once_are_never_both(
    reviewed: ReviewedProject, turn: int
) -> None:
    number = await _fail_second(reviewed)
    second = (await reviewed.read(number))["operations"][1]["id"]
    review = await reviewed.review("")

    async def retry() -> tuple[str, Answer]:
        return "retry", await reviewed.operate(number, second, "retry")

    async def apply() -> tuple[str, Answer]:
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
async def test_what_is_canceled_is_not_carried_out(reviewed: ReviewedProject, turn: int) -> None:
    """While a worker is at it, from its end: somewhere in between they meet."""
    names = [f"q{n:02}" for n in range(24)]
    queues = ", ".join(f"{name}: {{}}" for name in names)
    application = await reviewed.begin(f"environments: {{staging: {{queues: {{{queues}}}}}}}\n")
    numbers = [operation["id"] for operation in application["operations"]]

    async def cancel(some: Sequence[int]) -> dict[int, int]:
        return {
            number: (await reviewed.operate(application["id"], number, "cancel")).status for number in some
        }

    async with reviewed.working():
        back = numbers[::-1]
        answers = await asyncio.gather(*(cancel(back[n :: turn + 1]) for n in range(turn + 1)))
        told = await reviewed.finished(application["id"])
    given = {number: status for some in answers for number, status in some.items()}
    made = Counter(await _queues(reviewed))
    audited = Counter(
        details["name"] for action, details in await reviewed.audited() if action == "queue.create"
    )
    for name, operation in zip(names, told["operations"], strict=True):
        assert operation["status"] in (S, C)
        is_canceled = operation["status"] == C
        assert given[operation["id"]] == (200 if is_canceled else 409)
        assert (made[name], audited[name]) == ((0, 0) if is_canceled else (1, 1))
        assert operation["attempts"] == (0 if is_canceled else 1)
    assert told["status"] == ("canceled" if C in statuses(told) else "succeeded")


@pytest.mark.both_databases
async def test_an_operation_that_is_canceled_as_it_is_begun_is_one_of_both(reviewed: ReviewedProject) -> None:
    outcomes = Counter[str]()
    async with reviewed.working():
        for turn in range(16):
            application = await reviewed.begin(f"environments: {{staging: {{queues: {{r{turn}: {{}}}}}}}}\n")
            (operation,) = application["operations"]
            # The worker knows of it already.
            await asyncio.sleep(0.002 * turn)
            answer = await reviewed.operate(application["id"], operation["id"], "cancel")
            told = await reviewed.finished(application["id"])
            outcomes[told["status"]] += 1
            is_canceled = answer.status == 200
            assert statuses(told) == [C if is_canceled else S]
            assert (f"r{turn}" in await _queues(reviewed)) is not is_canceled
    assert set(outcomes) <= {"succeeded", "canceled"}
