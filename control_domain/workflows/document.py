"""The workflow document, version 1: how a project is built, released and run, and what triggers deployments.

Releases store it as JSON: `from_json` has to read what `to_json` of any earlier version wrote. Validation belongs to
`read_workflow`, so that a stored document stays readable when the rules become stricter.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

VERSION = 1
STEPS_SECONDS = 900
HEALTH_SECONDS = 60
RETAINED = 5

Close = Literal["destroy", "keep"]


@dataclass(frozen=True, slots=True)
class Health:
    """Health check: a GET request of `path` must succeed within `timeout_seconds`."""

    path: str
    timeout_seconds: int = HEALTH_SECONDS


@dataclass(frozen=True, slots=True)
class Process:
    """A process that is kept running. `web` gets PORT and traffic; its environment sets its number of replicas."""

    name: str
    command: str
    replicas: int = 1
    health: Health | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """Shell commands that run in order; `timeout_seconds` limits all of them together."""

    steps: tuple[str, ...] = ()
    timeout_seconds: int = STEPS_SECONDS


@dataclass(frozen=True, slots=True)
class PullRequests:
    """Preview environments of pull requests: copies of the environment with the slug `from_`. `close`: what happens to
    a preview when its pull request is closed."""

    from_: str
    close: Close = "destroy"


@dataclass(frozen=True, slots=True)
class Triggers:
    """What starts deployments. `push`: slugs of environments by branch; `skip`: a commit whose message contains this
    text is not deployed."""

    push: Mapping[str, str]
    pull_requests: PullRequests | None = None
    skip: str | None = None


@dataclass(frozen=True, slots=True)
class WorkflowDocument:
    """A workflow document, with defaults for omitted keys. `processes`: by name, in the order of the text; `retain`:
    the number of succeeded releases that an environment keeps."""

    build: Steps
    release: Steps
    processes: Mapping[str, Process]
    triggers: Triggers
    retain: int = RETAINED


def to_json(document: WorkflowDocument) -> dict[str, Any]:
    """Return plain data with the document's keys, without absent optional ones; as YAML it is a valid document."""
    return {
        "version": VERSION,
        "build": _steps_to_json(document.build),
        "release": _steps_to_json(document.release),
        "processes": {name: _process_to_json(process) for name, process in document.processes.items()},
        "triggers": _triggers_to_json(document.triggers),
        "retain": document.retain,
    }


def from_json(data: Mapping[str, Any]) -> WorkflowDocument:
    """Return the document that `to_json` of this or an earlier version wrote. Raises `KeyError` for other data."""
    return WorkflowDocument(
        build=_steps_from_json(data["build"]),
        release=_steps_from_json(data["release"]),
        processes={name: _process_from_json(name, process) for name, process in data["processes"].items()},
        triggers=_triggers_from_json(data["triggers"]),
        retain=data["retain"],
    )


def _steps_to_json(steps: Steps) -> dict[str, Any]:
    return {"steps": list(steps.steps), "timeout_seconds": steps.timeout_seconds}


def _steps_from_json(data: Mapping[str, Any]) -> Steps:
    return Steps(tuple(data["steps"]), data["timeout_seconds"])


def _process_to_json(process: Process) -> dict[str, Any]:
    data: dict[str, Any] = {"command": process.command}
    if process.name != "web":
        data["replicas"] = process.replicas
    if process.health is not None:
        data["health"] = {"path": process.health.path, "timeout_seconds": process.health.timeout_seconds}
    return data


def _process_from_json(name: str, data: Mapping[str, Any]) -> Process:
    health = data.get("health")
    return Process(
        name=name,
        command=data["command"],
        replicas=data.get("replicas", 1),
        health=None if health is None else Health(health["path"], health["timeout_seconds"]),
    )


def _triggers_to_json(triggers: Triggers) -> dict[str, Any]:
    data: dict[str, Any] = {"push": dict(triggers.push)}
    if triggers.pull_requests is not None:
        data["pull_requests"] = {"from": triggers.pull_requests.from_, "close": triggers.pull_requests.close}
    if triggers.skip is not None:
        data["skip"] = triggers.skip
    return data


def _triggers_from_json(data: Mapping[str, Any]) -> Triggers:
    pulls = data.get("pull_requests")
    return Triggers(
        push=dict(data["push"]),
        pull_requests=None if pulls is None else PullRequests(pulls["from"], pulls["close"]),
        skip=data.get("skip"),
    )
