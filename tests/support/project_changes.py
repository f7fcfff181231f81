"""Changes that people make to a project without its configuration."""

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
from control_domain.notifications.rules import RuleSettings, add_rule
from control_domain.notifications.threshold_settings import ThresholdSettings
from control_domain.notifications.thresholds import add_threshold
from control_domain.previews.operations import open_preview
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
from control_domain.tables.accounts import Account
from control_domain.tables.monitors import Heartbeat, HeartbeatState
from control_domain.tables.projects import Environment, Project, ProjectRole
from control_domain.tables.sites import Goal, Site
from control_domain.tables.variables import VariableChange
from control_domain.variables.decisions import decide_variable_change
from pipeline_contracts.deploy_states import ChangeState
from pipeline_contracts.schedules import Schedule
from tests.support.deploy_platform import Platform, environment_path

Change = Callable[[Platform], Awaitable[None]]
_ACTOR = Actor("operator kim")
_NAME = "shop/staging"


def _now() -> datetime:
    return datetime.now(UTC)


def _call(method: str, operation: str, body: Any, status: int, name: str = _NAME) -> Change:
    async def change(platform: Platform) -> None:
        path = environment_path(platform.acme.places[name], operation)
        assert (await platform.call(method, path, body)).status == status

    return change


def _set_columns(**values: Any) -> Change:
    """Return a change that sets columns of the environment."""

    async def change(platform: Platform) -> None:
        mine = Environment.id == platform.acme.environment(_NAME).id
        async with platform.sessions() as session, session.begin():
            await session.execute(update(Environment).where(mine).values(**values))

    return change


def _in_environment(operation: Callable[..., Awaitable[Any]]) -> Change:
    """Return a change that runs an operation on the environment in one transaction."""

    async def change(platform: Platform) -> None:
        async with platform.sessions() as session, session.begin():
            project = await session.get_one(Project, platform.acme.projects["shop"].id)
            environment = await session.get_one(Environment, platform.acme.environment(_NAME).id)
            await operation(session, DeployTarget(environment, project))

    return change


def _on_site(operation: Callable[..., Awaitable[Any]]) -> Change:
    async def change(platform: Platform) -> None:
        assert platform.acme.site is not None
        async with platform.sessions() as session, session.begin():
            await operation(session, await session.get_one(Site, platform.acme.site.id))

    return change


def _on_heartbeat(operation: Callable[..., Awaitable[Any]]) -> Change:
    async def change(platform: Platform) -> None:
        async with platform.sessions() as session, session.begin():
            await operation(session, (await session.execute(select(Heartbeat))).scalar_one())

    return change


def _decide(to: ChangeState) -> Change:
    async def change(platform: Platform) -> None:
        async with platform.sessions() as session, session.begin():
            environment = await session.get_one(Environment, platform.acme.environment(_NAME).id)
            target = DeployTarget(environment, await session.get_one(Project, environment.project_id))
            pending = (await session.execute(select(VariableChange))).scalar_one()
            person = platform.acme.people["maintainer"]
            await decide_variable_change(session, pending, target, to, person, _ACTOR, _now())

    return change


_SETTINGS = HeartbeatSettings("nightly", Schedule(period_seconds=3600))


async def prepare_changes(platform: Platform) -> None:
    """Create the objects that some changes need: a heartbeat, a goal, and variables that wait for approval."""
    await _in_environment(
        lambda session, target: create_heartbeat(session, target.environment, _SETTINGS, _now())
    )(platform)
    await platform.change(_NAME, variables_need_approval=True)
    await _call("PUT", "variables", {"variables": "A=1\nB=2"}, 202)(platform)
    await _on_site(lambda session, site: add_goal(session, site, "Signup", None, "/welcome", _now()))(
        platform
    )


async def _remove_goals(session: Any, site: Site) -> None:
    for goal in (await session.execute(select(Goal.id).where(Goal.site_id == site.id))).scalars().all():
        await remove_goal(session, site, goal)


_THRESHOLD = ThresholdSettings(name="slow", kind="service.latency", target="web", threshold=800)


async def _add_rule(session: Any, target: DeployTarget) -> None:
    account = await session.get_one(Account, target.project.account_id)
    await add_rule(session, account, target.project, RuleSettings(name="on-call"), _ACTOR, _now())


async def _lock_and_unlock(session: Any, target: DeployTarget) -> None:
    await lock_environment(session, target, "x", _ACTOR, _now())
    await unlock_environment(session, target, _ACTOR, _now())


async def _scale_and_back(platform: Platform) -> None:
    for replicas in (7, 1):
        await _call("PATCH", "scale", {"replicas": replicas}, 202)(platform)


async def _set_workflow(platform: Platform) -> None:
    path = f"/v1/projects/{platform.acme.projects['shop'].public_id}/workflow"
    body = {"workflow": "version: 1\nprocesses: {web: {command: serve}}"}
    assert (await platform.call("PUT", path, body)).status == 200


CHANGES_TO_PLAN: Mapping[str, Change] = {
    "a scale": _call("PATCH", "scale", {"replicas": 7}, 202),
    "a hibernation": _call("PATCH", "runtime", {"state": "hibernated"}, 202),
    "variables": _call("PUT", "variables", {"variables": "A=1"}, 200, "shop/production"),
    "variables that wait": _call("PUT", "variables", {"variables": "A=2"}, 202),
    "an approval": _decide(ChangeState.APPLIED),
    "a rejection": _decide(ChangeState.REJECTED),
    "a lock": _in_environment(lambda session, target: lock_environment(session, target, "x", _ACTOR, _now())),
    "a window": _set_columns(deploy_window='{"days":["mon"],"from":"09:00","to":"16:00","timezone":"UTC"}'),
    "a name": _set_columns(name="Test"),
    "a type": _set_columns(type="development"),
    "an order": _set_columns(position=7),
    "a branch": _set_columns(branch="develop"),
    "approval of deploys": _set_columns(deploys_need_approval=True),
    "approval of variables": _set_columns(variables_need_approval=False),
    "waking": _set_columns(wake_on_request=True),
    "an environment": _in_environment(
        lambda session, target: create_environment(session, target.project, "New", "new", "staging", _now())
    ),
    "a removed environment": _in_environment(
        lambda session, target: remove_environment(session, target, _ACTOR, _now())
    ),
    "a heartbeat": _in_environment(
        lambda session, target: create_heartbeat(
            session, target.environment, HeartbeatSettings("other", _SETTINGS.schedule), _now()
        )
    ),
    "a removed heartbeat": _on_heartbeat(
        lambda session, heartbeat: remove_heartbeat(session, heartbeat, _now())
    ),
    "a heartbeat's grace": _on_heartbeat(
        lambda session, heartbeat: session.execute(update(Heartbeat).values(grace_seconds=1))
    ),
    "a queue": _in_environment(
        lambda session, target: create_queue(session, target.environment, "default", _now())
    ),
    "a threshold": _in_environment(
        lambda session, target: add_threshold(session, target, _THRESHOLD, _ACTOR, _now())
    ),
    "a rule": _in_environment(_add_rule),
    "a project's name": _in_environment(
        lambda session, target: session.execute(
            update(Project).where(Project.id == target.project.id).values(name="The shop")
        )
    ),
    "a site": _in_environment(
        lambda session, target: create_site(
            session, target.project.id, "docs", "UTC", ["https://docs.example"], _now()
        )
    ),
    "a site's domains": _on_site(
        lambda session, site: change_domains(session, site, ["https://shop.example", "https://other.example"])
    ),
    "a site's time zone": _on_site(lambda session, site: change_timezone(session, site, "UTC")),
    "a goal": _on_site(lambda session, site: add_goal(session, site, "Purchase", "purchase", None, _now())),
    "a removed goal": _on_site(_remove_goals),
    "a goal's path": _on_site(
        lambda session, site: session.execute(
            update(Goal).where(Goal.site_id == site.id).values(path="/other")
        )
    ),
}
"""Changes of planned state: a plan made before one of them cannot be applied."""

CHANGES_OUTSIDE_PLAN: Mapping[str, Change] = {
    "a deployment": _call("POST", "deploy", {}, 202),
    "the same scale": _call("PATCH", "scale", {"replicas": 1}, 202),
    "a scale and back": _scale_and_back,
    "a lock and its removal": _in_environment(_lock_and_unlock),
    "a heartbeat's signal": _on_heartbeat(
        lambda session, heartbeat: session.execute(
            update(HeartbeatState).values(state="up", last_signal_ms=1, version=1)
        )
    ),
    "a monitor's key": _on_heartbeat(
        lambda session, heartbeat: create_monitor_key(session, _now(), heartbeat_id=heartbeat.id)
    ),
    "an ingest key": _in_environment(
        lambda session, target: create_ingest_key(session, target.environment, _now())
    ),
    "another project's scale": _call("PATCH", "scale", {"replicas": 7}, 202, "blog/staging"),
    "a preview": _in_environment(
        lambda session, target: open_preview(session, target.project, "feature", _ACTOR, _now())
    ),
    "a role": _in_environment(
        lambda session, target: session.execute(update(ProjectRole).values(role="viewer"))
    ),
    "a workflow": _set_workflow,
}
"""Changes that leave earlier plans valid."""
