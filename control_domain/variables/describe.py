"""Documents of variables: names, versions, protection, and changes that wait. No document has a value."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypedDict, cast

from msgspec import Meta
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from control_domain.accounts.describe import PersonSummary, summarize_person
from control_domain.projects.describe import (
    EnvironmentSummary,
    ProjectSummary,
    summarize_environment,
    summarize_project,
)
from control_domain.projects.find import DeployTarget
from control_domain.sealing import CannotOpen, SealingKeys
from control_domain.tables.accounts import Person
from control_domain.tables.deployments import LiveRelease, Release
from control_domain.tables.projects import Environment
from control_domain.tables.variables import ChangeKind, VariableChange, VariableSet
from control_domain.variables.pending import find_pending_changes, read_changed_names
from control_domain.variables.protection import list_protected_names
from control_domain.variables.versions import find_newest_variables, merge_update, open_variables
from pipeline_contracts.times import format_time


class VariableDocument(TypedDict):
    """A variable, without its value."""

    name: str
    is_set: Annotated[bool, Meta(description="False if the name is protected but there is no such variable.")]
    protected: Annotated[bool, Meta(description="True if previews get no copy of it.")]


class ChangedVariables(TypedDict):
    """The names of the variables that a change concerns."""

    added: list[str]
    changed: list[str]
    removed: list[str]
    unprotected: list[str]


class VariableChangeDocument(TypedDict):
    """A change of variables that a second person approves or rejects."""

    id: int
    kind: Annotated[
        Literal["replace", "update", "unprotect"],
        Meta(
            description="`replace`: of all variables. `update`: of some; the others stay. `unprotect`: previews get "
            "copies of them again."
        ),
    ]
    status: Literal["pending", "applied", "rejected", "superseded"]
    project: ProjectSummary
    environment: EnvironmentSummary
    names: Annotated[
        ChangedVariables | None,
        Meta(
            description="The difference from the present variables. Null if the change is decided, or cannot be opened."
        ),
    ]
    asked_by: PersonSummary | None
    created_at: str
    decided_by: PersonSummary | None
    decided_at: str | None


class VariablesDocument(TypedDict):
    """The variables of an environment, without their values."""

    project: ProjectSummary
    environment: EnvironmentSummary
    version: Annotated[
        int | None, Meta(description="From 1, incremented by each change. Null if variables were never set.")
    ]
    set_at: str | None
    set_by: Annotated[PersonSummary | None, Meta(description="The person who set or requested this version.")]
    not_live: Annotated[
        bool,
        Meta(
            description="True if the live release has another version. The next deployment brings this one."
        ),
    ]
    variables: Annotated[list[VariableDocument], Meta(description="The variables, ordered by name.")]
    pending_changes: Annotated[
        list[VariableChangeDocument],
        Meta(description="The changes that wait for a second person, the oldest first."),
    ]


class PendingApproval(TypedDict):
    """A change that waits for a second person, who approves it with `POST /v1/variable-changes/{change}/approve`."""

    status: Literal["pending_approval"]
    change_id: int


def describe_pending_approval(change_id: int) -> PendingApproval:
    return {"status": "pending_approval", "change_id": change_id}


async def read_variables(session: AsyncSession, keys: SealingKeys, target: DeployTarget) -> VariablesDocument:
    """Return the document of an environment's variables. Raises `CannotOpen`."""
    environment = target.environment
    newest = await find_newest_variables(session, environment)
    query = select(Person).where(Person.id == (None if newest is None else newest.set_by_id))
    author = (await session.execute(query)).scalar_one_or_none()
    protected = set(await list_protected_names(session, environment))
    present = open_variables(keys, newest, environment.public_id)
    pending = await find_pending_changes(session, environment)
    return {
        "project": summarize_project(target.project),
        "environment": summarize_environment(environment),
        "version": None if newest is None else newest.version,
        "set_at": None if newest is None else format_time(newest.created_at),
        "set_by": None if author is None else summarize_person(author),
        "not_live": await _is_not_live(session, environment, newest),
        "variables": [
            {"name": name, "is_set": name in present, "protected": name in protected}
            for name in sorted(present.keys() | protected)
        ],
        "pending_changes": await describe_changes(session, keys, [(change, target) for change in pending]),
    }


async def _is_not_live(session: AsyncSession, environment: Environment, newest: VariableSet | None) -> bool:
    live = select(Release.variables_id).join(LiveRelease, LiveRelease.release_id == Release.id)
    row = (await session.execute(live.where(LiveRelease.environment_id == environment.id))).first()
    return row is not None and row.variables_id != (None if newest is None else newest.id)


async def describe_changes(
    session: AsyncSession, keys: SealingKeys, changes: Sequence[tuple[VariableChange, DeployTarget]]
) -> list[VariableChangeDocument]:
    """Return the documents of these changes. Names that cannot be opened are null."""
    people = await _read_people(session, [change for change, _ in changes])
    environments = {target.environment.id: target.environment for _, target in changes}
    newest = await _read_newest(session, environments)
    present = {
        number: _open_or_none(keys, newest.get(number), environment)
        for number, environment in environments.items()
    }
    return [
        {
            "id": change.id,
            "kind": cast(Any, change.kind),
            "status": cast(Any, change.current_state.value),
            "project": summarize_project(target.project),
            "environment": summarize_environment(target.environment),
            "names": _compare(
                change,
                present[target.environment.id],
                _open_or_none(keys, change, target.environment),
            ),
            "asked_by": people.get(change.asked_by_id),
            "created_at": format_time(change.created_at),
            "decided_by": people.get(change.decided_by_id),
            "decided_at": None if change.decided_at is None else format_time(change.decided_at),
        }
        for change, target in changes
    ]


async def describe_change(
    session: AsyncSession, keys: SealingKeys, change: VariableChange, target: DeployTarget
) -> VariableChangeDocument:
    """Return the document of one change."""
    [document] = await describe_changes(session, keys, [(change, target)])
    return document


async def _read_people(
    session: AsyncSession, changes: Sequence[VariableChange]
) -> dict[int | None, PersonSummary]:
    ids = {number for change in changes for number in (change.asked_by_id, change.decided_by_id)}
    query = select(Person).where(Person.id.in_(ids - {None}))
    return {person.id: summarize_person(person) for person in (await session.execute(query)).scalars()}


async def _read_newest(session: AsyncSession, environment_ids: Iterable[int]) -> dict[int, VariableSet]:
    others = aliased(VariableSet)
    # Account scope: the environments of the outer query are of the account.
    newest = (
        select(VariableSet.version)
        .where(VariableSet.environment_id == others.environment_id)
        .order_by(VariableSet.version.desc())
        .limit(1)
    )
    query = select(others).where(
        others.environment_id.in_(environment_ids), others.version == newest.scalar_subquery()
    )
    return {row.environment_id: row for row in (await session.execute(query)).scalars()}


def _open_or_none(
    keys: SealingKeys, row: VariableSet | VariableChange | None, environment: Environment
) -> dict[str, str] | None:
    try:
        return open_variables(keys, row, environment.public_id)
    except CannotOpen:
        return None


def _compare(
    change: VariableChange, before: Mapping[str, str] | None, values: Mapping[str, str] | None
) -> ChangedVariables | None:
    """`before`: the present variables; `values`: the variables that the change sets; None if they cannot be opened."""
    names = read_changed_names(change)
    if change.kind == ChangeKind.UNPROTECT:
        return {"added": [], "changed": [], "removed": [], "unprotected": names.unprotect}
    if change.sealed is None or before is None or values is None:
        return None
    is_replacement = change.kind == ChangeKind.REPLACE
    after = values if is_replacement else merge_update(before, values, frozenset(names.unset))
    return {
        "added": sorted(after.keys() - before.keys()),
        "changed": sorted(name for name in after.keys() & before.keys() if after[name] != before[name]),
        "removed": sorted(before.keys() - after.keys()),
        "unprotected": [],
    }
