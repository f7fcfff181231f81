"""The workflow document, version 1: how a project is built, released and run, and what deploys it.

Releases keep it as JSON: what `to_json` wrote, `from_json` has to read in every later version. Rules belong into
`read_workflow`; a document that was taken once stays readable when they get stricter.
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
    """A process is healthy once a GET of `path` is answered well; it has `timeout_seconds` for that."""

    path: str
    timeout_seconds: int = HEALTH_SECONDS


@dataclass(frozen=True, slots=True)
class Process:
    """What is kept running. Of `web`, which gets PORT and traffic, the environment says how many."""

    name: str
    command: str
    replicas: int = 1
    health: Health | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """Shell commands, run one after another; all of them together have `timeout_seconds`."""

    steps: tuple[str, ...] = ()
    timeout_seconds: int = STEPS_SECONDS


@dataclass(frozen=True, slots=True)
class PullRequests:
    """Pull requests get an environment of their own, made after `from_`, a slug; `close` is what becomes of it."""

    from_: str
    close: Close = "destroy"


@dataclass(frozen=True, slots=True)
class Triggers:
    """What deploys without being asked. `push`: environments' slugs by branch; `skip`: a commit whose message has this
    text deploys nothing."""

    push: Mapping[str, str]
    pull_requests: PullRequests | None = None
    skip: str | None = None


@dataclass(frozen=True, slots=True)
class WorkflowDocument:
    """All of it, with defaults for what was left out. `processes` are by name, in the order of the text; `retain`: how
    many succeeded releases an environment keeps."""

    build: Steps
    release: Steps
    processes: Mapping[str, Process]
    triggers: Triggers
    retain: int = RETAINED


def to_json(document: WorkflowDocument) -> dict[str, Any]:
    """Plain data with the keys of the document, which is one again when it is written as YAML; what may be absent
    and is, is left out."""
    return {
        "version": VERSION,
        "build": _steps_to_json(document.build),
        "release": _steps_to_json(document.release),
        "processes": {name: _process_to_json(process) for name, process in document.processes.items()},
        "triggers": _triggers_to_json(document.triggers),
        "retain": document.retain,
    }


def from_json(data: Mapping[str, Any]) -> WorkflowDocument:
    """The document that `to_json` gave this of, in whatever version. Raises `KeyError` for what it never gave."""
    return WorkflowDocument(
        build=_steps_from_json(data["build"]),
        release=_steps_from_json(data["release"]),
        processes={name: _process_from_json(name, one) for name, one in data["processes"].items()},
        triggers=_triggers_from_json(data["triggers"]),
        retain=data["retain"],
    )


def _steps_to_json(steps: Steps) -> dict[str, Any]:
    return {"steps": list(steps.steps), "timeout_seconds": steps.timeout_seconds}


def _steps_from_json(data: Mapping[str, Any]) -> Steps:
    return Steps(tuple(data["steps"]), data["timeout_seconds"])


def _process_to_json(process: Process) -> dict[str, Any]:
    told: dict[str, Any] = {"command": process.command}
    if process.name != "web":
        told["replicas"] = process.replicas
    if process.health is not None:
        told["health"] = {"path": process.health.path, "timeout_seconds": process.health.timeout_seconds}
    return told


def _process_from_json(name: str, data: Mapping[str, Any]) -> Process:
    health = data.get("health")
    return Process(
        name=name,
        command=data["command"],
        replicas=data.get("replicas", 1),
        health=None if health is None else Health(health["path"], health["timeout_seconds"]),
    )


def _triggers_to_json(triggers: Triggers) -> dict[str, Any]:
    told: dict[str, Any] = {"push": dict(triggers.push)}
    if triggers.pull_requests is not None:
        told["pull_requests"] = {"from": triggers.pull_requests.from_, "close": triggers.pull_requests.close}
    if triggers.skip is not None:
        told["skip"] = triggers.skip
    return told


def _triggers_from_json(data: Mapping[str, Any]) -> Triggers:
    pulls = data.get("pull_requests")
    return Triggers(
        push=dict(data["push"]),
        pull_requests=None if pulls is None else PullRequests(pulls["from"], pulls["close"]),
        skip=data.get("skip"),
    )
