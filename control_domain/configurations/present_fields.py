"""The fields of what there is, in the form that configuration documents are read into."""

from collections.abc import Callable, Iterable, Mapping

from control_domain.configurations.addresses import GOALS, VARIABLES, write_address
from control_domain.configurations.values import Secret, Value
from control_domain.environments.windows import window_of
from control_domain.sites.operations import domains_of
from control_domain.tables.monitors import Heartbeat
from control_domain.tables.projects import Environment, Project
from control_domain.tables.sites import Goal, Site
from pipeline_contracts.durations import write_duration


def project_fields(project: Project) -> dict[str, Value]:
    """Those of a project."""
    return {"name": project.name}


def environment_fields(environment: Environment, is_locked: bool) -> dict[str, Value]:
    """Those of an environment, but for its variables."""
    window = window_of(environment.deploy_window)
    return {
        "name": environment.name,
        "type": environment.type,
        "order": environment.position,
        "branch": environment.branch,
        "replicas": environment.desired_replicas,
        "state": environment.state,
        "locked": is_locked,
        "window": None if window is None else window.to_document(),
        "approval.deploys": environment.deploys_need_approval,
        "approval.variables": environment.variables_need_approval,
        "wake_on_request": environment.wake_on_request,
    }


def variable_fields(values: Mapping[str, str], digest: Callable[[str], str]) -> dict[str, Value]:
    """An environment's variables as `variables.NAME`, without their values; `digest` gives that of one."""
    return {write_address((VARIABLES, name)): Secret(digest(value)) for name, value in values.items()}


def heartbeat_fields(heartbeat: Heartbeat) -> dict[str, Value]:
    """Those of a heartbeat."""
    period = heartbeat.period_seconds
    return {
        "cron": heartbeat.cron,
        "period": None if period is None else write_duration(period),
        "timezone": heartbeat.timezone,
        "grace": write_duration(heartbeat.grace_seconds),
        "max_runtime": write_duration(heartbeat.max_runtime_seconds),
        "failures_before_down": heartbeat.failures_before_down,
        "paused": heartbeat.paused,
    }


def site_fields(site: Site, goals: Iterable[Goal]) -> dict[str, Value]:
    """Those of a site, its goals as `goals.Signup`."""
    return {
        "domains": domains_of(site),
        "timezone": site.timezone,
        **{write_address((GOALS, goal.name)): goal_value(goal) for goal in goals},
    }


def goal_value(goal: Goal) -> dict[str, str]:
    """What the goal counts: `{"event": "purchase"}` or `{"path": "/welcome"}`."""
    if goal.event is not None:
        return {"event": goal.event}
    assert goal.path is not None
    return {"path": goal.path}
