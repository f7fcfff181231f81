"""Random documents on random projects, applied on both databases."""

import json
from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, select

from control_domain.audit import Actor
from control_domain.configurations.addresses import PROJECT
from control_domain.configurations.documents.read_document import read_configuration
from control_domain.configurations.documents.write_document import write_document
from control_domain.configurations.plan import Plan, make_plan
from control_domain.configurations.project_state import read_project_state
from control_domain.configurations.resources import ProjectState
from control_domain.configurations.sealed_actions import open_actions, seal_actions
from control_domain.configurations.steps.apply_step import apply_step
from control_domain.projects.operations import create_project
from control_domain.tables.notifications import NotificationChannel, NotificationRule
from control_domain.tables.projects import Project
from tests.support.applied_configuration import apply_in_memory
from tests.support.changed_project import ChangedProject, all_gates
from tests.support.examples import EXAMPLES
from tests.support.managed_project import NOW
from tests.support.random_configurations import CHANNELS, RandomDocument, documents_for

_ACTOR = Actor("203.0.113.7")
_numbers = count()


class _NewProject:
    """A new project for each example."""

    def __init__(self, configured: ChangedProject, project: Project) -> None:
        self._sessions = configured.managed.engines.sessions
        self._keys = configured.keys
        self._project = project

    def _digest(self, value: str) -> str:
        return self._keys.digest(value, self._project.public_id)

    async def read(self) -> ProjectState:
        async with self._sessions() as session:
            return await read_project_state(session, self._keys, self._project)

    def plan(self, document: RandomDocument, state: ProjectState) -> Plan:
        plan = make_plan(read_configuration(document.text, document.bindings, self._digest), state)
        again = make_plan(read_configuration(document.text, document.bindings, self._digest), state)
        assert json.dumps(plan.to_json()).encode() == json.dumps(again.to_json()).encode()
        return plan

    def plan_export(self, state: ProjectState) -> Plan:
        return make_plan(read_configuration(write_document(state), {}, self._digest), state)

    async def apply_step(self, plan: Plan) -> None:
        """Apply an action as the worker does: sealed and opened, in a separate transaction."""
        of = self._project.public_id
        for action in plan.actions:
            (opened,) = open_actions(self._keys, seal_actions(self._keys, [action], of), of)
            async with self._sessions() as session, session.begin():
                project = await session.get_one(Project, self._project.id)
                await apply_step(session, self._keys, project, opened, _ACTOR, NOW, all_gates(opened))


async def _make_project(configured: ChangedProject) -> _NewProject:
    slug = f"random-{next(_numbers)}"
    async with configured.managed.engines.sessions() as session, session.begin():
        account = configured.managed.account
        project = await create_project(session, account, slug, slug, NOW)
        # The number of an account's rules is limited, and their names are unique.
        await session.execute(delete(NotificationRule))
        for name in set(CHANNELS) - {*await session.scalars(select(NotificationChannel.name))}:
            session.add(
                NotificationChannel(
                    public_id=f"chn_{name}",
                    account_id=account.id,
                    name=name,
                    type="slack",
                    settings="{}",
                    created_at=NOW,
                )
            )
    return _NewProject(configured, project)


def _leaves_variables_waiting(plan: Plan) -> bool:
    """Return True if the plan turns the approval of variables off that its own variables wait for."""
    return any(
        any(change.field == "approval.variables" and change.before is True for change in action.changes)
        and any(change.field.startswith("variables.") for change in action.changes)
        for action in plan.actions
        if action.verb == "update"
    )


@given(data=st.data())
@settings(max_examples=EXAMPLES // 3, deadline=None, suppress_health_check=list(HealthCheck))
async def test_random_projects_match_the_applied_document(
    configured: ChangedProject, data: st.DataObject
) -> None:
    project = await _make_project(configured)
    for _ in range(3):
        state = await project.read()
        document = data.draw(documents_for(state))
        plan = project.plan(document, state)
        await project.apply_step(plan)
        after = await project.read()
        if _leaves_variables_waiting(plan):
            # Without the gate that they wait for, the next configuration run sets them.
            await project.apply_step(project.plan(document, after))
            after = await project.read()
        # Applying the same document again changes nothing, and omitted resources are unchanged.
        assert project.plan(document, after).actions == []
        wanted = apply_in_memory(state, plan).resources
        assert {one.address: one.fields for one in after.resources.values()} == {
            one.address: one.fields for one in wanted.values()
        }
        export = project.plan_export(after)
        assert (list(export.actions), list(export.unmanaged)) == ([], [])
        # An actor that has not seen the change gets an error, unless there was no change.
        assert (state.fingerprint() == after.fingerprint()) is (not plan.actions)
    assert PROJECT in after.resources
