"""Variables that a configuration sets, next to variables that it omits, on both databases."""

import pytest
from sqlalchemy import select

from control_domain.configurations.plan import Action, Change
from control_domain.configurations.resources import Secret
from control_domain.configurations.steps.step_context import Publications
from control_domain.sealing import SealingKeys
from control_domain.tables.projects import Environment
from control_domain.tables.variables import VariableChange, VariableSet
from control_domain.variables.dotenv import MAX_VARIABLES
from control_domain.variables.operations import replace_variables
from control_domain.variables.versions import find_newest_variables, open_variables
from pipeline_contracts.deploy_states import ChangeState
from pipeline_contracts.errors import SecondPersonRequired
from tests.support.changed_project import PRODUCTION, STAGING, ChangedProject
from tests.support.managed_project import NOW, REVISION

A, B, C = (("environments", "production", "variables", name) for name in "ABC")


async def _values(configured: ChangedProject, slug: str = "production") -> dict[str, str]:
    """Return the current variables."""
    environment = await configured.environment(slug)
    async with configured.managed.engines.sessions() as session:
        present = await find_newest_variables(session, environment)
        return open_variables(configured.keys, present, environment.public_id)


async def _waiting(configured: ChangedProject) -> list[tuple[str, dict[str, str], int | None]]:
    """Return the changes for a second person: state, variables and requester of each."""
    query = (
        select(VariableChange, Environment.public_id)
        .join(Environment, Environment.id == VariableChange.environment_id)
        .order_by(VariableChange.id)
    )
    async with configured.managed.engines.sessions() as session:
        return [
            (change.current_state.value, open_variables(configured.keys, change, of), change.asked_by_id)
            for change, of in await session.execute(query)
        ]


async def _set(configured: ChangedProject, text: str) -> None:
    await configured.managed.set_variables(text, by=None)


async def test_setting_variables_keeps_the_omitted_ones(configured: ChangedProject) -> None:
    await _set(configured, "B=1\nA=1\nD=1")
    said = {"variables.A": configured.secret("two"), "variables.C": configured.secret("")}
    action = await configured.plan_one(PRODUCTION, said)
    assert await configured.apply_step(action) == Publications()
    assert list((await _values(configured)).items()) == [("B", "1"), ("A", "two"), ("D", "1"), ("C", "")]
    assert await configured.audited() == [("variables.update", {"names": ["A", "C"], "removed": []})]
    async with configured.managed.engines.sessions() as session:
        newest = (
            (await session.execute(select(VariableSet).order_by(VariableSet.id.desc()))).scalars().first()
        )
    assert newest is not None
    deployer = configured.managed.people["deployer"].id
    assert (newest.version, newest.count, newest.set_by_id) == (2, 4, deployer)
    await configured.repeated(action)


async def test_authors_of_the_omitted_variables_stay_authors(configured: ChangedProject) -> None:
    managed = configured.managed
    await managed.change_environment(deploys_need_approval=True)
    number = await managed.queue("deployer", revision=REVISION)
    await managed.update_variables({"KEPT": "1"}, by="maintainer")
    await configured.plan_and_apply(PRODUCTION, {"variables.A": configured.secret("1")})
    assert await _values(configured) == {"KEPT": "1", "A": "1"}
    digest = await managed.read_digest(number)
    with pytest.raises(SecondPersonRequired, match="Maintainer has changed the variables"):
        await managed.approve(number, "maintainer", digest=digest)
    await managed.approve(number, "owner", digest=digest)


@pytest.mark.parametrize("is_gated", [False, True])
async def test_author_of_the_review_is_the_author_of_its_changes(
    configured: ChangedProject, is_gated: bool
) -> None:
    managed = configured.managed
    await managed.change_environment(deploys_need_approval=True, variables_need_approval=is_gated)
    number = await managed.queue("deployer", revision=REVISION)
    action = await configured.plan_one(PRODUCTION, {"variables.A": configured.secret("1")})
    await configured.apply_step(action, author="maintainer")
    maintainer = managed.people["maintainer"].id
    if is_gated:
        assert await _waiting(configured) == [(ChangeState.PENDING, {"A": "1"}, maintainer)]
        return
    digest = await managed.read_digest(number)
    with pytest.raises(SecondPersonRequired, match="Maintainer has changed the variables"):
        await managed.approve(number, "maintainer", digest=digest)
    await managed.approve(number, "owner", digest=digest)


async def test_variables_are_removed(configured: ChangedProject) -> None:
    await _set(configured, "A=1\nB=1\nC=1")
    (action,) = await configured.plan({PRODUCTION: {"variables.B": configured.secret("2")}}, deleted=[A, C])
    await configured.apply_step(action)
    assert await _values(configured) == {"B": "2"}
    await configured.repeated(action)
    (action,) = await configured.plan(deleted=[B])
    await configured.apply_step(action)
    assert await _values(configured) == {}


async def test_unchanged_variables_create_no_version(configured: ChangedProject) -> None:
    action = await configured.plan_one(
        PRODUCTION, {"variables.A": configured.secret("1"), "replicas": 2, "branch": "main"}
    )
    await _set(configured, "A=1\nB=2")
    await configured.apply_step(action)
    assert await configured.managed.count(VariableSet) == 1
    assert [name for name, _ in await configured.audited()] == ["environment.set", "environment.scale"]


async def test_settings_can_be_changed_if_variables_cannot_be_opened(configured: ChangedProject) -> None:
    action = await configured.plan_one(PRODUCTION, {"replicas": 2})
    await _set(configured, "A=1")
    await configured.apply_step(action, SealingKeys([b"x" * 32]))
    assert (await configured.environment()).desired_replicas == 2


async def test_variables_that_cannot_be_opened_are_not_changed(configured: ChangedProject) -> None:
    await _set(configured, "A=tops3cret")
    action = await configured.plan_one(PRODUCTION, {"variables.A": configured.secret("n3w")})
    message = await configured.refused(action, SealingKeys([b"x" * 32]))
    assert message.startswith("environments.production cannot be changed: The secrets of env_")
    assert "PHAROS_VARIABLES_KEY" in message


@pytest.mark.parametrize("meanwhile", ["A=2", "A=", ""])
async def test_a_variable_changed_since_the_plan_is_not_changed(
    configured: ChangedProject, meanwhile: str
) -> None:
    await _set(configured, "A=1")
    said = {"variables.A": configured.secret("3"), "variables.B": configured.secret("3"), "replicas": 2}
    action = await configured.plan_one(PRODUCTION, said)
    await _set(configured, meanwhile)
    assert await configured.refused(action) == (
        "environments.production was changed meanwhile: variables.A; make a new review."
    )


async def test_a_resource_changed_since_the_plan_is_not_removed(configured: ChangedProject) -> None:
    await _set(configured, "A=1")
    (action,) = await configured.plan(deleted=[A])
    await _set(configured, "A=2")
    assert "variables.A" in await configured.refused(action)
    await _set(configured, "B=2")
    await configured.repeated(action)


async def test_concurrent_changes_of_other_variables_are_kept(configured: ChangedProject) -> None:
    await _set(configured, "A=1\nB=1")
    action = await configured.plan_one(PRODUCTION, {"variables.A": configured.secret("2")})
    await _set(configured, "A=1\nB=5\nC=5")
    await configured.apply_step(action)
    assert await _values(configured) == {"A": "2", "B": "5", "C": "5"}


@pytest.mark.both_databases
async def test_a_change_waits_for_a_concurrent_change_of_variables(configured: ChangedProject) -> None:
    await _set(configured, "A=1")
    action = await configured.plan_one(PRODUCTION, {"variables.A": configured.secret("2")})
    async with configured.while_uncommitted(action) as session:
        target = await configured.managed.read_target(session)
        await replace_variables(session, configured.keys, target, {"A": "5"}, configured.others(), NOW)
    assert await _values(configured) == {"A": "5"}


@pytest.mark.both_databases
async def test_variables_that_need_approval_wait(configured: ChangedProject) -> None:
    await _set(configured, "A=1")
    await configured.plan_and_apply(PRODUCTION, {"approval.variables": True})
    action = await configured.plan_one(PRODUCTION, {"variables.A": configured.secret("2")})
    await configured.apply_step(action)
    assert await _values(configured) == {"A": "1"}
    deployer = configured.managed.people["deployer"].id
    assert await _waiting(configured) == [("pending", {"A": "2"}, deployer)]
    # A waiting change is in the desired state.
    await configured.repeated(action)
    assert await configured.fields(PRODUCTION) == {
        **(await configured.fields(PRODUCTION) or {}),
        "variables.A": configured.secret("2"),
    }
    async with configured.managed.engines.sessions() as session:
        change = (await session.execute(select(VariableChange.id))).scalar_one()
    await configured.managed.decide_on_variables(change)
    assert await _values(configured) == {"A": "2"}
    await configured.repeated(action)


async def test_no_document_bypasses_the_approval(configured: ChangedProject) -> None:
    await _set(configured, "A=1")
    await configured.plan_and_apply(PRODUCTION, {"approval.variables": True})
    said = {"approval.variables": False, "variables.A": configured.secret("2")}
    await configured.plan_and_apply(PRODUCTION, said)
    assert await _values(configured) == {"A": "1"}
    assert [waiting[:2] for waiting in await _waiting(configured)] == [("pending", {"A": "2"})]


async def test_a_document_that_turns_approval_on_sets_its_variables_before(
    configured: ChangedProject,
) -> None:
    said = {"approval.variables": True, "variables.A": configured.secret("2")}
    await configured.plan_and_apply(PRODUCTION, said)
    assert await _values(configured) == {"A": "2"}
    assert await _waiting(configured) == []


async def test_new_variables_wait_beside_those_awaiting_approval(configured: ChangedProject) -> None:
    await _set(configured, "A=1\nB=1")
    await configured.plan_and_apply(PRODUCTION, {"approval.variables": True})
    await configured.managed.propose_variables("A=2\nC=2")
    await configured.plan_and_apply(PRODUCTION, {"variables.D": configured.secret("3")})
    people = configured.managed.people
    # Each change is approved separately, so that no requester can approve variables as a part of another person's
    # change.
    assert await _waiting(configured) == [
        ("pending", {"A": "2", "C": "2"}, people["owner"].id),
        ("pending", {"D": "3"}, people["deployer"].id),
    ]
    assert await _values(configured) == {"A": "1", "B": "1"}
    digests = {name: configured.secret(value) for name, value in (("A", "2"), ("C", "2"), ("D", "3"))}
    planned = await configured.fields(PRODUCTION) or {}
    assert {name: planned.get(f"variables.{name}") for name in "ABCD"} == {**digests, "B": None}


@pytest.mark.both_databases
async def test_changes_that_wait_without_a_gate_never_go_live(configured: ChangedProject) -> None:
    await _set(configured, "A=1")
    await configured.plan_and_apply(PRODUCTION, {"approval.variables": True})
    await configured.managed.propose_variables("A=2\nC=2")
    await configured.plan_and_apply(PRODUCTION, {"approval.variables": False})
    fields = await configured.fields(PRODUCTION) or {}
    assert fields["variables.A"] == configured.secret("1")
    assert "variables.C" not in fields
    await configured.plan_and_apply(PRODUCTION, {"variables.D": configured.secret("3")})
    assert await _values(configured) == {"A": "1", "D": "3"}
    assert [state for state, _, _ in await _waiting(configured)] == ["superseded"]


async def test_a_gate_turned_off_since_the_plan_fails_the_step(configured: ChangedProject) -> None:
    await _set(configured, "A=1")
    await configured.plan_and_apply(PRODUCTION, {"approval.variables": True})
    await configured.managed.propose_variables("A=2")
    action = await configured.plan_one(PRODUCTION, {"variables.A": configured.secret("3")})
    await configured.managed.change_environment(variables_need_approval=False)
    assert "variables.A" in await configured.refused(action)


async def test_a_change_rejected_since_the_plan_fails_the_step(configured: ChangedProject) -> None:
    await _set(configured, "A=1")
    await configured.plan_and_apply(PRODUCTION, {"approval.variables": True})
    change = await configured.managed.propose_variables("A=2")
    action = await configured.plan_one(PRODUCTION, {"variables.A": configured.secret("3")})
    await configured.managed.decide_on_variables(change, ChangeState.REJECTED)
    assert "variables.A" in await configured.refused(action)


async def test_the_first_variables_of_an_environment_need_no_approval(configured: ChangedProject) -> None:
    said = {"type": "staging", "approval.variables": True, "variables.A": configured.secret("1")}
    action = await configured.plan_one(STAGING, said)
    await configured.apply_step(action)
    assert await _values(configured, "staging") == {"A": "1"}
    assert await _waiting(configured) == []
    await configured.repeated(action)


async def test_the_limit_of_variables_is_enforced(configured: ChangedProject) -> None:
    await _set(configured, "\n".join(f"N{number}=1" for number in range(MAX_VARIABLES)))
    said = {"variables.A": configured.secret("1"), "variables.N0": configured.secret("2")}
    action = await configured.plan_one(PRODUCTION, said)
    assert await configured.refused(action) == (
        "environments.production would have 1001 variables, and may have 1000: delete some that are there already, and "
        "make a new review."
    )
    gone = ("environments", "production", "variables", "N1")
    (action,) = await configured.plan({PRODUCTION: said}, deleted=[gone])
    await configured.apply_step(action)
    assert len(await _values(configured)) == MAX_VARIABLES


async def test_a_variable_without_a_stored_value_is_not_set(configured: ChangedProject) -> None:
    digest = configured.secret("1").digest
    action = Action("update", PRODUCTION, [Change("variables.A", None, Secret(digest), True)])
    assert await configured.refused(action) == (
        "environments.production.variables.A has no value to set; make a new review."
    )


async def test_no_value_is_in_the_audit_log_or_a_message(configured: ChangedProject) -> None:
    values = ["tops3cret", "anoth3r", "th1rd"]
    said = {"type": "staging", "variables.A": configured.secret(values[0])}
    await configured.plan_and_apply(STAGING, said)
    action = await configured.plan_one(STAGING, {"variables.A": configured.secret(values[1])})
    await configured.plan_and_apply(STAGING, {"variables.A": configured.secret(values[2])})
    result = [await configured.refused(action)]
    created = Action("create", STAGING, [Change("variables.A", None, configured.secret(values[0]), True)])
    result.append(await configured.refused(created))
    removed = await configured.plan_one(STAGING)
    await configured.plan_and_apply(STAGING, {"variables.A": configured.secret(values[1])})
    result.append(await configured.refused(removed))
    result.append(await configured.audit_text())
    digests = [configured.secret(value).digest[:8] for value in values]
    assert not [word for word in (*values, *digests) if any(word in text for text in result)]
