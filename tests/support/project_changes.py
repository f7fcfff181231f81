"""What people do in a project besides applying configurations."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select, update

from control_domain.audit import Actor
from control_domain.environments.locks import lock_environment, unlock_environment
from control_domain.monitors.operations import (
    HeartbeatSettings,
    create_heartbeat,
    create_monitor_key,
    create_queue,
)
from control_domain.monitors.remove_monitors import remove_heartbeat
from control_domain.previews import open_preview
from control_domain.projects.find import DeployTarget
from control_domain.projects.operations import create_environment, create_ingest_key
from control_domain.removals.remove_environment import remove_environment
from control_domain.sites.operations import (
    add_goal,
    change_domains,
    change_timezone,
    create_site,
    remove_goal,
)
from control_domain.tables.monitors import Heartbeat, HeartbeatState
from control_domain.tables.projects import Environment, Project, ProjectRole
from control_domain.tables.sites import Goal, Site
from control_domain.tables.variables import VariableChange
from control_domain.variables.operations import decide_variable_change
from pipeline_contracts.deploy_states import ChangeState
from pipeline_contracts.schedules import Schedule
from tests.support.deploy_platform import Platform, environment_path

Change = Callable[[Platform], Awaitable[None]]
_ACTOR = Actor("operator kim")
_NAME = "shop/staging"


def _now() -> datetime:
    return datetime.now(UTC)


def _asks(method: str, operation: str, body: Any, status: int, name: str = _NAME) -> Change:
    async def change(platform: Platform) -> None:
        path = environment_path(platform.acme.places[name], operation)
        assert (await platform.call(method, path, body)).status == status

    return change


def _sets(**values: Any) -> Change:
    """Columns of the environment."""

    async def change(platform: Platform) -> None:
        mine = Environment.id == platform.acme.environment(_NAME).id
        async with platform.sessions() as session, session.begin():
            await session.execute(update(Environment).where(mine).values(**values))

    return change


def _in_place(do: Callable[..., Awaitable[Any]]) -> Change:
    """With a session, the project and the environment, in one transaction."""

    async def change(platform: Platform) -> None:
        async with platform.sessions() as session, session.begin():
            project = await session.get_one(Project, platform.acme.projects["shop"].id)
            environment = await session.get_one(Environment, platform.acme.environment(_NAME).id)
            await do(session, DeployTarget(environment, project))

    return change


def _on_site(do: Callable[..., Awaitable[Any]]) -> Change:
    async def change(platform: Platform) -> None:
        assert platform.acme.site is not None
        async with platform.sessions() as session, session.begin():
            await do(session, await session.get_one(Site, platform.acme.site.id))

    return change


def _on_heartbeat(do: Callable[..., Awaitable[Any]]) -> Change:
    async def change(platform: Platform) -> None:
        async with platform.sessions() as session, session.begin():
            await do(session, (await session.execute(select(Heartbeat))).scalar_one())

    return change


def _decides(to: ChangeState) -> Change:
    async def change(platform: Platform) -> None:
        async with platform.sessions() as session, session.begin():
            environment = await session.get_one(Environment, platform.acme.environment(_NAME).id)
            target = DeployTarget(environment, await session.get_one(Project, environment.project_id))
            pending = (await session.execute(select(VariableChange))).scalar_one()
            person = platform.acme.people["maintainer"]
            await decide_variable_change(session, pending, target, to, person, _ACTOR, _now())

    return change


_SETTINGS = HeartbeatSettings("nightly", Schedule(period_seconds=3600))


async def make_before(platform: Platform) -> None:
    """What some of the changes need: a heartbeat, and variables that wait for a second person."""
    await _in_place(lambda session, target: create_heartbeat(session, target.environment, _SETTINGS, _now()))(
        platform
    )
    await platform.change(_NAME, variables_need_approval=True)
    await _asks("PUT", "variables", {"variables": "A=1\nB=2"}, 202)(platform)
    await _on_site(lambda session, site: add_goal(session, site, "Signup", None, "/welcome", _now()))(
        platform
    )


async def _remove_goals(session: Any, site: Site) -> None:
    for goal in (await session.execute(select(Goal.id).where(Goal.site_id == site.id))).scalars().all():
        await remove_goal(session, site, goal)


async def _lock_and_unlock(session: Any, target: DeployTarget) -> None:
    await lock_environment(session, target, "x", _ACTOR, _now())
    await unlock_environment(session, target, _ACTOR, _now())


async def _scale_and_back(platform: Platform) -> None:
    for replicas in (7, 1):
        await _asks("PATCH", "scale", {"replicas": replicas}, 202)(platform)


async def _call_workflow(platform: Platform) -> None:
    path = f"/v1/projects/{platform.acme.projects['shop'].public_id}/workflow"
    body = {"workflow": "version: 1\nprocesses: {web: {command: serve}}"}
    assert (await platform.call("PUT", path, body)).status == 200


CHANGES: Mapping[str, Change] = {
    "a scale": _asks("PATCH", "scale", {"replicas": 7}, 202),
    "a hibernation": _asks("PATCH", "runtime", {"state": "hibernated"}, 202),
    "variables": _asks("PUT", "variables", {"variables": "A=1"}, 200, "shop/production"),
    "variables that wait": _asks("PUT", "variables", {"variables": "A=2"}, 202),
    "an approval": _decides(ChangeState.APPLIED),
    "a rejection": _decides(ChangeState.REJECTED),
    "a lock": _in_place(lambda session, target: lock_environment(session, target, "x", _ACTOR, _now())),
    "a window": _sets(deploy_window='{"days":["mon"],"from":"09:00","to":"16:00","timezone":"UTC"}'),
    "a name": _sets(name="Test"),
    "a type": _sets(type="development"),
    "an order": _sets(position=7),
    "a branch": _sets(branch="develop"),
    "approval of deploys": _sets(deploys_need_approval=True),
    "approval of variables": _sets(variables_need_approval=False),
    "waking": _sets(wake_on_request=True),
    "an environment": _in_place(
        lambda session, target: create_environment(session, target.project, "New", "new", "staging", _now())
    ),
    "an environment less": _in_place(
        lambda session, target: remove_environment(session, target, _ACTOR, _now())
    ),
    "a heartbeat": _in_place(
        lambda session, target: create_heartbeat(
            session, target.environment, HeartbeatSettings("other", _SETTINGS.schedule), _now()
        )
    ),
    "a heartbeat less": _on_heartbeat(remove_heartbeat),
    "a heartbeat's grace": _on_heartbeat(
        lambda session, heartbeat: session.execute(update(Heartbeat).values(grace_seconds=1))
    ),
    "a queue": _in_place(
        lambda session, target: create_queue(session, target.environment, "default", _now())
    ),
    "a project's name": _in_place(
        lambda session, target: session.execute(
            update(Project).where(Project.id == target.project.id).values(name="The shop")
        )
    ),
    "a site": _in_place(
        lambda session, target: create_site(
            session, target.project.id, "docs", "UTC", ["https://docs.example"], _now()
        )
    ),
    "a site's domains": _on_site(
        lambda session, site: change_domains(session, site, ["https://shop.example", "https://other.example"])
    ),
    "a site's time zone": _on_site(lambda session, site: change_timezone(session, site, "UTC")),
    "a goal": _on_site(lambda session, site: add_goal(session, site, "Purchase", "purchase", None, _now())),
    "a goal less": _on_site(_remove_goals),
    "a goal's path": _on_site(
        lambda session, site: session.execute(
            update(Goal).where(Goal.site_id == site.id).values(path="/other")
        )
    ),
}
"""What a plan sees: nobody may apply one from before."""

NO_CHANGES: Mapping[str, Change] = {
    "a deployment": _asks("POST", "deploy", {}, 202),
    "the same scale": _asks("PATCH", "scale", {"replicas": 1}, 202),
    "a scale and back": _scale_and_back,
    "a lock that is gone again": _in_place(_lock_and_unlock),
    "a heartbeat's signal": _on_heartbeat(
        lambda session, heartbeat: session.execute(
            update(HeartbeatState).values(state="up", last_signal_ms=1, version=1)
        )
    ),
    "a monitor's key": _on_heartbeat(
        lambda session, heartbeat: create_monitor_key(session, _now(), heartbeat_id=heartbeat.id)
    ),
    "an ingest key": _in_place(
        lambda session, target: create_ingest_key(session, target.environment, _now())
    ),
    "another project's scale": _asks("PATCH", "scale", {"replicas": 7}, 202, "blog/staging"),
    "a preview": _in_place(
        lambda session, target: open_preview(session, target.project, "feature", _ACTOR, _now())
    ),
    "a role": _in_place(lambda session, target: session.execute(update(ProjectRole).values(role="viewer"))),
    "a workflow": _call_workflow,
}
"""What a plan does not see."""
