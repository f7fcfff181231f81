"""Read and validate the workflow document, version 1."""

import re
from collections.abc import Mapping
from typing import cast

from control_domain.documents.faults import DocumentFault, Fault, quote
from control_domain.documents.field import Field
from control_domain.documents.strict_yaml import collect_yaml
from control_domain.workflows.document import (
    HEALTH_SECONDS,
    RETAINED,
    STEPS_SECONDS,
    VERSION,
    Close,
    Health,
    Process,
    PullRequests,
    Steps,
    Triggers,
    WorkflowDocument,
)
from pipeline_contracts.git_refs import is_ref

LONGEST_COMMAND = 4096
MOST_STEPS = 50
MOST_PROCESSES = 20
MAX_REPLICAS = 20
MOST_RETAINED = 50
MOST_STEPS_SECONDS = 7200
MOST_HEALTH_SECONDS = 3600
MAX_PATH_LENGTH = 2000
LONGEST_SKIP = 100

WEB = "web"
_KEYS = ("version", "build", "release", "processes", "triggers", "retain")
_PROCESS_NAME = re.compile("[a-z][a-z0-9-]{0,29}")
# Characters that are allowed in the first line of an HTTP request.
_PATH = re.compile(r"/[!-\"$-~]*")


def read_workflow(text: str) -> WorkflowDocument:
    """Read the YAML as a workflow document, with defaults for omitted keys. Raises `DocumentFault`."""
    faults: list[Fault] = []
    root = collect_yaml(text, faults)
    document = None if root is None else _read_document(Field(root, faults))
    if document is None or faults:
        raise DocumentFault(faults)
    return document


def _read_document(root: Field) -> WorkflowDocument | None:
    """Return the document, with arbitrary values in place of faulty ones."""
    members = root.members()
    if members is None:
        return None
    version = members.get("version")
    if version is not None and not version.is_version(VERSION, "workflow"):
        # Another version has other keys: further faults would mislead.
        return None
    known = root.known_members(_KEYS, needed=("version", "processes")) or {}
    retain = known.get("retain")
    return WorkflowDocument(
        build=_read_steps(known.get("build")),
        release=_read_steps(known.get("release")),
        processes=_read_processes(known.get("processes")),
        triggers=_read_triggers(known.get("triggers")),
        retain=RETAINED if retain is None else retain.integer(1, MOST_RETAINED) or RETAINED,
    )


def _read_steps(field: Field | None) -> Steps:
    members = None if field is None else field.known_members(("steps", "timeout_seconds"))
    if not members:
        return Steps()
    items = members["steps"].items(MOST_STEPS) if "steps" in members else None
    read = [item.text(LONGEST_COMMAND, allowed="\t\n") for item in items or ()]
    return Steps(
        steps=tuple(step for step in read if step is not None),
        timeout_seconds=_read_seconds(members, STEPS_SECONDS, MOST_STEPS_SECONDS),
    )


def _read_seconds(members: Mapping[str, Field], default: int, limit: int) -> int:
    seconds = members.get("timeout_seconds")
    return default if seconds is None else seconds.integer(1, limit) or default


def _read_processes(field: Field | None) -> Mapping[str, Process]:
    members = None if field is None else field.members()
    if field is None or members is None:
        return {}
    if not 1 <= len(members) <= MOST_PROCESSES:
        field.refuse(f"has {len(members):,} processes: 1 to {MOST_PROCESSES} are allowed")
        return {}
    return {key: _read_process(key, member) for key, member in members.items()}


def _read_process(key: str, field: Field) -> Process:
    if _PROCESS_NAME.fullmatch(key) is None:
        field.refuse("the name of a process has 1 to 30 of a-z, 0-9 and hyphens, and begins with a letter")
    members = field.known_members(("command", "replicas", "health"), needed=("command",)) or {}
    command = members["command"].text(LONGEST_COMMAND, allowed="\t") if "command" in members else None
    replicas, health = members.get("replicas"), members.get("health")
    if key == WEB and replicas is not None:
        replicas.refuse("the environment sets the number of replicas of web: remove this key")
    if key != WEB and health is not None:
        health.refuse("only web can have a health check, because only web serves requests: remove this key")
    return Process(
        name=key,
        command=command or "",
        replicas=1 if key == WEB or replicas is None else replicas.integer(1, MAX_REPLICAS) or 1,
        health=None if key != WEB or health is None else _read_health(health),
    )


def _read_health(field: Field) -> Health:
    members = field.known_members(("path", "timeout_seconds"), needed=("path",)) or {}
    path = members["path"].text(MAX_PATH_LENGTH) if "path" in members else None
    if path is not None and _PATH.fullmatch(path) is None:
        members["path"].refuse("must begin with / and contain only ASCII characters, without blanks and #")
    return Health(path or "/", _read_seconds(members, HEALTH_SECONDS, MOST_HEALTH_SECONDS))


def _read_triggers(field: Field | None) -> Triggers:
    members = None if field is None else field.known_members(("push", "pull_requests", "skip"))
    if not members:
        return Triggers(push={})
    push = (members["push"].members() if "push" in members else None) or {}
    pulls, skip = members.get("pull_requests"), members.get("skip")
    return Triggers(
        push={branch: _read_push(branch, slug) for branch, slug in push.items()},
        pull_requests=None if pulls is None else _read_pull_requests(pulls),
        skip=None if skip is None else skip.text(LONGEST_SKIP),
    )


def _read_push(branch: str, field: Field) -> str:
    if not is_ref(branch):
        field.refuse(f"{quote(branch)} is not a branch name that Git allows")
    return field.slug() or ""


def _read_pull_requests(field: Field) -> PullRequests:
    members = field.known_members(("from", "close"), needed=("from",)) or {}
    close = members["close"].choice(("destroy", "keep")) if "close" in members else None
    return PullRequests(
        from_=(members["from"].slug() if "from" in members else None) or "",
        close=cast(Close, close or "destroy"),
    )
