"""Applying reviews: which reviews, by whom, how often, and the reasons for a refusal."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from control_domain.audit import Actor
from control_domain.configurations.reviews import clean_up_reviews
from control_domain.configurations.start_run import start_run
from control_domain.database.engine import open_engine, open_sessions
from control_domain.tables.audit import AuditEntry
from control_domain.tables.configuration import ConfigurationRun, Review, RunStep
from pipeline_contracts.errors import ReviewExpired
from tests.support.deploy_platform import Platform, Prepared, open_platform, prepared_after
from tests.support.project_changes import CHANGES_OUTSIDE_PLAN, CHANGES_TO_PLAN, prepare_changes
from tests.support.reviewed_project import ReviewedProject, statuses

DOCUMENT = """\
environments:
  staging:
    replicas: 2
    queues: {first: {}, second: {}}
"""
OTHER = "environments: {production: {name: Live}}\n"
WINDOW = "{days: [mon], from: '09:00', to: '16:00', timezone: UTC}"


@pytest.fixture
def shop(platform: Platform) -> ReviewedProject:
    """A project in which each person has the role with the same name."""
    return ReviewedProject(platform, "shop")


@pytest.fixture(scope="module")
async def prepared_changes(
    prepared: Prepared, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Prepared]:
    async with prepared_after(prepared, tmp_path_factory.mktemp("changes"), prepare_changes) as made:
        yield made


@pytest.fixture
async def changing(prepared_changes: Prepared, tmp_path: Path) -> AsyncIterator[ReviewedProject]:
    """The same project, prepared for all of the changes."""
    async with open_platform(prepared_changes, tmp_path) as platform:
        yield ReviewedProject(platform, "shop")


@pytest.fixture(scope="module")
async def prepared_protected(
    prepared: Prepared, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Prepared]:
    async def apply_document(platform: Platform) -> None:
        assert (await ReviewedProject(platform, "shop").apply_document(_BEFORE))["status"] == "succeeded"

    async with prepared_after(prepared, tmp_path_factory.mktemp("protected"), apply_document) as made:
        yield made


@pytest.fixture
async def protected(prepared_protected: Prepared, tmp_path: Path) -> AsyncIterator[ReviewedProject]:
    """The same with `_BEFORE`."""
    async with open_platform(prepared_protected, tmp_path) as platform:
        yield ReviewedProject(platform, "shop")


async def _same_after(shop: ReviewedProject, review: int, **options: Any) -> tuple[int, str]:
    """Return the refusal of the review; check that it changes nothing."""
    before = await shop.platform.contents()
    answer = await shop.apply(review, **options)
    assert await shop.platform.contents() == before
    return answer.problem


@pytest.mark.both_databases
async def test_a_run_has_a_step_for_each_action(shop: ReviewedProject) -> None:
    review = await shop.ask("reviews", DOCUMENT)
    answer = await shop.apply(review.data["id"], who="deployer")
    assert answer.status == 200
    result = answer.data
    assert set(result) == {"id", "review_id", "status", "created_at", "finished_at", "operations"}
    assert (result["review_id"], result["status"], result["finished_at"]) == (
        review.data["id"],
        "running",
        None,
    )
    actions = review.data["plan"]["actions"]
    assert len(actions) == 3
    for step, action in zip(result["operations"], actions, strict=True):
        assert step == {
            "id": step["id"],
            **action,
            "status": "pending",
            "error": None,
            "attempts": 0,
            "started_at": None,
            "finished_at": None,
        }
    assert [one["id"] for one in result["operations"]] == sorted(one["id"] for one in result["operations"])
    # All people who may read the project can read this run.
    path = f"applications/{result['id']}"
    assert (await shop.call("GET", path, who="viewer")).data == result
    # Starting the run applies nothing.
    assert (await shop.fields("environments", "staging") or {})["name"] == "Staging"


async def test_a_run_stores_who_applied_the_review(shop: ReviewedProject) -> None:
    review = await shop.review(DOCUMENT)
    path = f"/v1/projects/{shop.project.public_id}/configuration/reviews/{review}/apply"
    token = shop.platform.acme.token("deployer")
    answer = await shop.platform.call("POST", path, token=token, headers={"X-Request-Id": "req-7"})
    (run,) = await shop.rows(ConfigurationRun, ConfigurationRun.id == answer.data["id"])
    entry = (await shop.rows(AuditEntry))[-1]
    assert (entry.action, entry.subject) == ("configuration.apply", f"project {shop.project.public_id}")
    assert run.person_id == entry.person_id == shop.platform.acme.people["deployer"].id
    assert run.token_id == entry.token_id
    assert run.request_id == entry.request_id == "req-7"
    assert run.source == entry.source == "127.0.0.1"


async def test_applying_an_expired_review_is_409(shop: ReviewedProject) -> None:
    review = await shop.review(DOCUMENT)
    await shop.age(review, timedelta(minutes=15))
    assert await _same_after(shop, review) == (409, "review-expired")
    assert await _same_after(shop, review, key="k") == (409, "review-expired")
    # A minute earlier, the review has not expired.
    other = await shop.review(DOCUMENT)
    await shop.age(other, timedelta(minutes=14))
    assert (await shop.apply(other)).status == 200


async def test_a_review_without_secrets_has_expired(shop: ReviewedProject) -> None:
    review = await shop.review(DOCUMENT)
    async with shop.platform.sessions() as session, session.begin():
        await clean_up_reviews(session, datetime.now(UTC) + timedelta(minutes=16))
    assert await _same_after(shop, review) == (409, "review-expired")


async def test_a_review_is_valid_for_fifteen_minutes_to_the_microsecond(shop: ReviewedProject) -> None:
    number = await shop.review(DOCUMENT)
    (review,) = await shop.rows(Review, Review.id == number)
    assert review.expires_at == review.created_at + timedelta(minutes=15)
    project = shop.project
    async with shop.platform.sessions() as session:
        with pytest.raises(ReviewExpired):
            await start_run(session, shop.keys, project, number, Actor("test"), review.expires_at)
    last = review.expires_at - timedelta(microseconds=1)
    async with shop.platform.sessions() as session, session.begin():
        await start_run(session, shop.keys, project, number, Actor("test"), last)


async def test_a_review_is_applied_once(shop: ReviewedProject) -> None:
    review = await shop.review(DOCUMENT)
    run = (await shop.apply(review)).data
    answer = await shop.apply(review)
    assert answer.problem == (409, "review-applied")
    assert answer.json()["application_id"] == run["id"]
    assert (await shop.work(run["id"]))["status"] == "succeeded"
    # The reason is not that the review has expired since.
    await shop.age(review, timedelta(minutes=15))
    assert await _same_after(shop, review) == (409, "review-applied")


@pytest.mark.both_databases
async def test_of_a_hundred_concurrent_requests_one_applies_the_review(shop: ReviewedProject) -> None:
    review = await shop.review(DOCUMENT)
    before = {table: await shop.count(table) for table in (ConfigurationRun, RunStep, AuditEntry)}
    people = ("owner", "admin", "maintainer", "deployer")
    # Half of the requests have idempotency keys, each a different one.
    answers = await asyncio.gather(
        *(
            shop.apply(review, who=people[n % len(people)], key=f"key {n}" if n % 2 else None)
            for n in range(100)
        )
    )
    assert Counter(answer.status for answer in answers) == {200: 1, 409: 99}
    [taken] = [answer.data["id"] for answer in answers if answer.status == 200]
    for answer in answers:
        if answer.status == 409:
            assert answer.problem == (409, "review-applied")
            assert answer.json()["application_id"] == taken
    after = {table: await shop.count(table) for table in before}
    assert {table: after[table] - before[table] for table in before} == {
        ConfigurationRun: 1,
        RunStep: 3,
        AuditEntry: 1,
    }


@pytest.mark.both_databases
async def test_of_many_concurrent_reviews_one_is_applied(shop: ReviewedProject) -> None:
    reviews = [await shop.review(document) for document in (DOCUMENT, OTHER, "") for _ in range(4)]
    # There is no worker, so the started run stays running, unless it changes nothing.
    before = await shop.count_runs()
    answers = await asyncio.gather(*(shop.apply(review) for review in reviews * 4))
    good = [answer.data for answer in answers if answer.status == 200]
    assert len(good) == 1
    assert await shop.count_runs() == before + 1
    expected = "application-running" if good[0]["operations"] else "project-changed"
    kinds = Counter(answer.problem[1] for answer in answers if answer.status != 200)
    assert kinds == {expected: 44, "review-applied": 3}


@pytest.mark.parametrize("change", CHANGES_TO_PLAN)
async def test_applying_to_a_changed_project_is_409(changing: ReviewedProject, change: str) -> None:
    review = await changing.review(OTHER)
    await CHANGES_TO_PLAN[change](changing.platform)
    assert await _same_after(changing, review) == (409, "project-changed")
    # The same holds for a repetition by any person: the review stays open, and its project is changed.
    assert await _same_after(changing, review, key="k") == (409, "project-changed")
    assert (await changing.apply(await changing.review(OTHER))).status == 200


@pytest.mark.parametrize("change", CHANGES_OUTSIDE_PLAN)
async def test_changes_outside_the_plan_do_not_outdate_a_review(
    changing: ReviewedProject, change: str
) -> None:
    review = await changing.review(OTHER)
    await CHANGES_OUTSIDE_PLAN[change](changing.platform)
    assert (await changing.apply(review)).status == 200


async def test_of_two_reviews_of_one_state_one_is_applied(shop: ReviewedProject) -> None:
    """This holds even if the plan of the other review would still be the same."""
    first, second = [await shop.review(DOCUMENT) for _ in range(2)]
    run = (await shop.apply(first)).data
    before = await shop.platform.contents()
    answer = await shop.apply(second)
    assert answer.problem == (409, "application-running")
    assert answer.json()["application_id"] == run["id"]
    assert await shop.platform.contents() == before
    assert (await shop.work(run["id"]))["status"] == "succeeded"
    assert await _same_after(shop, second) == (409, "project-changed")


async def test_projects_of_an_account_are_independent(shop: ReviewedProject) -> None:
    blog = ReviewedProject(shop.platform, "blog")
    reviews = await shop.review(DOCUMENT), await blog.review(DOCUMENT)
    assert (await shop.apply(reviews[0])).status == 200
    assert (await blog.apply(reviews[0])).problem == (404, "not-found")
    assert (await shop.apply(reviews[1])).problem == (404, "not-found")
    assert (await blog.apply(reviews[1])).status == 200


async def test_no_run_starts_while_another_is_running(shop: ReviewedProject) -> None:
    run = await shop.begin(DOCUMENT)
    # This review was created while the run was visible.
    review = await shop.review(OTHER)
    answer = await shop.apply(review)
    assert answer.problem == (409, "application-running")
    assert answer.json()["application_id"] == run["id"]
    await shop.work(run["id"])
    assert (await shop.apply(await shop.review(OTHER))).status == 200


async def test_a_plan_of_nothing_succeeds_at_once(shop: ReviewedProject) -> None:
    older = await shop.review(OTHER)
    plan = await shop.ask("reviews", "")
    assert plan.data["plan"]["actions"] == []
    result = (await shop.apply(plan.data["id"])).data
    assert (result["status"], result["operations"]) == ("succeeded", [])
    assert result["finished_at"] == result["created_at"]
    assert await shop.read(result["id"]) == result
    # The reviewer of the earlier review has not seen this run.
    assert await _same_after(shop, older) == (409, "project-changed")


@pytest.mark.both_databases
async def test_a_repeated_idempotency_key_starts_one_run(shop: ReviewedProject) -> None:
    review, other = await shop.review(DOCUMENT), await shop.review(OTHER)
    before = await shop.count_runs()
    answers = await asyncio.gather(*(shop.apply(review, key="k") for _ in range(20)))
    assert {(answer.status, answer.body) for answer in answers} == {(200, answers[0].body)}
    replayed = Counter(answer.headers.get("Idempotent-Replayed") for answer in answers)
    assert replayed == {None: 1, "true": 19}
    assert await shop.count_runs() == before + 1
    # The first response is repeated, whatever the present status of the run.
    await shop.work(answers[0].data["id"])
    again = await shop.apply(review, key="k")
    assert (again.body, again.data["status"]) == (answers[0].body, "running")
    # A key is valid for one review.
    answer = await shop.apply(other, key="k")
    assert (answer.problem, answer.fields) == ((422, "validation-failed"), ["Idempotency-Key"])
    # A key of another person is independent.
    assert await _same_after(shop, review, key="k", who="deployer") == (409, "review-applied")


def _count_pending(url: str) -> int:
    """Return the number of pending steps that another process sees. Nothing else runs meanwhile."""

    async def count() -> int:
        engine = open_engine(url)
        async with open_sessions(engine)() as session:
            query = select(func.count()).where(RunStep.status == "pending")
            found = (await session.execute(query)).scalar_one()
        await engine.dispose()
        return found

    with ThreadPoolExecutor(1) as threads:
        return threads.submit(lambda: asyncio.run(count())).result()


async def test_the_worker_is_woken_after_the_commit(shop: ReviewedProject) -> None:
    url = shop.platform.engine.url.render_as_string(hide_password=False)
    # One step of the earlier run is pending, and is canceled.
    others = await shop.count(RunStep, RunStep.status == "pending") - 1
    seen: list[int] = []
    shop.platform.app.state.wake_configuration_runs = lambda: seen.append(_count_pending(url))
    run = await shop.begin(DOCUMENT)
    first = run["operations"][0]["id"]
    await shop.move_step(run["id"], first, "cancel")
    await shop.move_step(run["id"], first, "retry")
    assert [count - others for count in seen] == [3, 2, 3]


_BEFORE = """\
environments:
  staging:
    window: {days: [mon], from: '09:00', to: '16:00', timezone: UTC}
    variables: {A: "1"}
    heartbeats: {nightly: {period: 1h}}
    queues: {default: {}}
  development: {locked: true}
  production: {approval: {deploys: true, variables: true}}
"""
MANAGED = {
    "a lock": "environments: {staging: {locked: true}}",
    "no lock": "environments: {development: {locked: false}}",
    "a window": f"environments: {{production: {{window: {WINDOW}}}}}",
    "another window": f"environments: {{staging: {{window: {WINDOW.replace('mon', 'tue')}}}}}",
    "no window": "environments: {staging: {window: null}}",
    "approval of deploys": "environments: {staging: {approval: {deploys: true}}}",
    "no approval of deploys": "environments: {production: {approval: {deploys: false}}}",
    "approval of variables": "environments: {staging: {approval: {variables: true}}}",
    "no approval of variables": "environments: {production: {approval: {variables: false}}}",
    "among much else": "environments: {staging: {replicas: 3, locked: true}, production: {replicas: 2}}",
    "the project's name": "project: {name: The shop}",
    "a new environment": "environments: {new: {type: staging}}",
    "a new environment that is locked": f"environments: {{new: {{type: staging, locked: true, window: {WINDOW}}}}}",
    "a name": "environments: {staging: {name: Test}}",
    "a type": "environments: {staging: {type: development}}",
    "an order": "environments: {staging: {order: 7}}",
    "a branch": "environments: {staging: {branch: release}}",
    "waking": "environments: {staging: {wake_on_request: true}}",
    "an environment less": "delete: [environments.development]",
    "a heartbeat less": "delete: [environments.staging.heartbeats.nightly]",
    "a queue less": "delete: [environments.staging.queues.default]",
    "a site less": "delete: [sites.Shop]",
}
FREE = {
    "values that are already set": f"environments: {{staging: {{window: {WINDOW}}}, development: {{locked: true}}}}",
    "replicas": "environments: {staging: {replicas: 3}}",
    "a state": "environments: {staging: {state: hibernated}}",
    "variables": "environments: {staging: {variables: {A: '2'}}}",
    "a variable less": "delete: [environments.staging.variables.A]",
    "a heartbeat": "environments: {staging: {heartbeats: {nightly: {period: 2h}, other: {period: 1h}}}}",
    "a queue": "environments: {staging: {queues: {other: {}}}}",
    "a site": "sites: {docs: {domains: ['https://docs.example']}}",
    "a site's domains": "sites: {Shop: {domains: ['https://new.example']}}",
    "a goal": "sites: {Shop: {goals: [{name: Signup, path: /welcome}]}}",
}


async def test_only_maintainers_manage(protected: ReviewedProject) -> None:
    """The roles are those of the API's operations. Removals always need a maintainer."""
    for name, document in MANAGED.items():
        answer = await protected.ask("reviews", document, who="deployer")
        assert answer.status == 201, (name, answer)
        for who in ("deployer", "viewer", "stranger"):
            assert await _same_after(protected, answer.data["id"], who=who) == (403, "deploy-not-allowed"), (
                name
            )
            refused = await _same_after(protected, answer.data["id"], who=who, key="k")
            assert refused == (403, "deploy-not-allowed"), name


@pytest.mark.parametrize("who", ["maintainer", "admin", "owner"])
async def test_maintainers_apply_protecting_steps(protected: ReviewedProject, who: str) -> None:
    answer = await protected.apply(
        await protected.review("\n".join((MANAGED["no lock"], MANAGED["a queue less"]))), who=who
    )
    assert answer.status == 200
    result = await protected.work(answer.data["id"])
    assert statuses(result) == ["succeeded", "succeeded"]
    assert await protected.fields("environments", "staging", "queues", "default") is None


@pytest.mark.parametrize("name", FREE)
async def test_deployers_apply_everything_else(protected: ReviewedProject, name: str) -> None:
    review = await protected.review(FREE[name])
    for who in ("viewer", "stranger"):
        assert await _same_after(protected, review, who=who) == (403, "deploy-not-allowed")
    answer = await protected.apply(review, who="deployer")
    assert answer.status == 200
    assert (await protected.work(answer.data["id"]))["status"] == "succeeded"
