"""The figures of pages of deployments."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.support.figures.expected import Shown
from tests.support.figures.texts import write_between, write_plural

_STATUSES = {
    "queued": "Queued",
    "awaiting_approval": "Waits for approval",
    "rejected": "Rejected",
    "deploying": "Building",
    "running": "Releasing",
    "succeeded": "Succeeded",
    "failed": "Failed",
    "canceled": "Canceled",
}
_STEPS = {
    "check_out": "Check out",
    "build": "Build",
    "release": "Release steps",
    "start": "Start and health check",
    "switch": "Switch traffic",
}
_PROCESSES = {
    "running": "Running",
    "starting": "Starting",
    "waiting": "Restarts soon",
    "draining": "Draining",
}


def _write_live(environment: Mapping[str, Any]) -> list[str]:
    """Return the live version, and the number of running processes."""
    live, deployment = environment["live"], environment["live_deployment"]
    if live is None:
        return []
    number = [] if deployment is None else [f"#{deployment['id']}"]
    running = environment["running"]
    count = [write_plural(running, "process", "processes")] if running == environment["desired"] else []
    return [live["revision"][:7], live["since"], *number, *count]


def _read_environments(environments: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in environments:
        newest, live = each["newest_deployment"], each["live_deployment"]
        shown = [each["name"], *_write_live(each)]
        if newest is not None and (live is None or newest["id"] != live["id"]):
            shown.append(f"#{newest['id']} {_STATUSES[newest['status']].lower()}")
        yield shown


def _read_pipeline(environments: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    yield from _read_environments([each for each in environments if each["type"] != "preview"])


def _read_live_card(environments: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    """The page shows the environment Production."""
    each = next(each for each in environments if each["name"] == "Production")
    yield [f"Deployment #{each['live_deployment']['id']}", each["live"]["since"]]
    variables = each["variables"]
    yield ["Variables", f"{variables['count']}, version {variables['version']}" if variables else "none"]


def _read_deployments(deployments: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in deployments:
        took = write_between(each["created_at"], each["finished_at"])
        commit = [text for text in (each["commit_subject"], each["commit_author"]) if text is not None]
        revision = [] if each["revision"] is None else [each["revision"][:7]]
        yield [f"#{each['id']}", _STATUSES[each["status"]], each["created_at"], *took, *revision, *commit]


def _read_deployment(details: Mapping[str, Any]) -> Iterable[list[str]]:
    yield [f"Deployment #{details['id']}"]
    yield ["Took", *write_between(details["created_at"], details["finished_at"])]
    yield ["Asked", details["created_at"]]
    if details["attempts"] > 1:
        yield ["Attempts", str(details["attempts"])]
    for step in details["steps"]:
        yield [_STEPS[step["step"]], *write_between(step["started_at"], step["ended_at"])]


def _read_processes(found: Mapping[str, Any]) -> Iterable[list[str]]:
    for each in found["instances"]:
        numbers = [str(each[name]) if each[name] is not None else "–" for name in ("port", "pid")]
        yield [
            f"{each['process']}.{each['number']}",
            _PROCESSES[each["state"]],
            f"#{each['deployment_id']}",
            " ".join([str(each["restarts"]), each["last_exit"] or "–", *numbers]),
        ]


def _read_releases(releases: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in releases:
        version = each["variables_version"]
        yield [
            f"#{each['deployment_id']}",
            each["revision"][:7],
            "none" if version is None else f"version {version}",
            each["created_at"],
            "Live" if each["live"] else "retained",
        ]


def _read_variables(found: Mapping[str, Any]) -> Iterable[list[str]]:
    for each in found["variables"]:
        yield [each["name"], "protected" if each["protected"] else "may be copied"]
    yield [f"Version {found['version']}", *([found["set_at"]] if found["set_at"] else [])]


def _read_ingest_keys(keys: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in keys:
        yield [f"{each['id']} {each['state']}", each["created_at"]]


def _read_previews(previews: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in previews:
        live = "–" if each["live"] is None else each["live"]["revision"][:7]
        yield [each["branch"], live, each["created_at"]]


def _read_deliveries(deliveries: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in deliveries:
        deployment = f"#{each['deployment_id']}" if each["deployment_id"] else "–"
        yield [
            each["received_at"],
            each["event"],
            f"HTTP {each['http_status']}",
            deployment,
            each["delivery"][:13],
        ]


def _read_members(members: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in members:
        yield [each["person"]["name"], each["person"]["email"], each["account_role"], each["role"]]


def _read_approvals(approvals: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in approvals:
        if each["deployment"] is not None:
            yield [f"Deployment #{each['deployment']['deployment']['id']}"]


_ENVIRONMENT = r"environments/\w+"
_PROJECT = r"projects/\w+"

DEPLOY: dict[str, Shown] = {
    "/deploy": {"environments": _read_environments},
    "/deploy?tab=approvals": {"approvals": _read_approvals},
    "/deploy/:project": {"environments": _read_pipeline, f"{_PROJECT}/deployments": _read_deployments},
    "/deploy/:project?tab=previews": {f"{_PROJECT}/previews": _read_previews},
    "/deploy/:project?tab=deliveries": {r"repositories/\d+/deliveries": _read_deliveries},
    "/deploy/:project?tab=members": {f"{_PROJECT}/members": _read_members},
    "/deploy/:project/:environment": {
        "environments": _read_live_card,
        f"{_ENVIRONMENT}/deployments": _read_deployments,
        f"{_ENVIRONMENT}/processes": _read_processes,
    },
    "/deploy/:project/:environment?tab=releases": {f"{_ENVIRONMENT}/releases": _read_releases},
    "/deploy/:project/:environment?tab=variables": {f"{_ENVIRONMENT}/variables": _read_variables},
    "/deploy/:project/:environment?tab=keys": {f"{_ENVIRONMENT}/ingest-keys": _read_ingest_keys},
    "/deployments/:build": {r"deployments/\d+/details": _read_deployment},
}
