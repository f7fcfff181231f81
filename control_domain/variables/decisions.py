"""A second person approves or rejects a change of variables."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import Right
from control_domain.accounts.second_person import check_second_person
from control_domain.audit import Actor, record_audit_entry
from control_domain.database.public_ids import parse_number
from control_domain.environments.gates import UNPROTECTED
from control_domain.environments.operations import lock_environment_row
from control_domain.projects.find import DeployTarget, is_callers_role, require_right
from control_domain.sealing import Sealed, SealingKeys
from control_domain.tables.accounts import Person
from control_domain.tables.projects import Environment, Project, ProjectRole
from control_domain.tables.variables import ChangeKind, VariableChange
from control_domain.variables.check_values import check_total
from control_domain.variables.pending import (
    OF_VALUES,
    find_pending_changes,
    read_changed_names,
    supersede,
)
from control_domain.variables.protection import unprotect_variables
from control_domain.variables.versions import (
    add_version,
    find_newest_variables,
    merge_update,
    open_variables,
)
from pipeline_contracts.deploy_states import ChangeState, ForbiddenTransition, check_transition
from pipeline_contracts.errors import Conflict, NotFound

_MAX_NAMED = 3
"""The number of variables that a message names."""


class ChangeWithTarget(NamedTuple):
    """A change of variables, with its environment and project."""

    change: VariableChange
    environment: Environment
    project: Project

    @property
    def target(self) -> DeployTarget:
        return DeployTarget(self.environment, self.project)


async def find_variable_change(
    session: AsyncSession, caller: Caller, number: str, right: Right
) -> ChangeWithTarget:
    """Return the change with this ID. Raises `NotFound`, also for a change of another account, and
    `DeployNotAllowed`."""
    row = (
        await session.execute(
            select(VariableChange, Environment, Project, ProjectRole.role)
            .join(Environment, Environment.id == VariableChange.environment_id)
            .join(Project, Project.id == Environment.project_id)
            .outerjoin(ProjectRole, is_callers_role(caller))
            .where(Project.account_id == caller.account.id, VariableChange.id == parse_number(number))
        )
    ).one_or_none()
    if row is None:
        raise NotFound("The account has no such change of variables.")
    require_right(caller, row[3], right)
    return ChangeWithTarget(*row[:3])


async def find_change_to_reject(
    session: AsyncSession, caller: Caller, number: str, right: Right
) -> ChangeWithTarget:
    """Return the change with this ID for a caller with `right` who requested it, or for one who may decide.

    Raises the errors of `find_variable_change`.
    """
    found = await find_variable_change(session, caller, number, right)
    if found.change.asked_by_id != caller.person.id:
        return await find_variable_change(session, caller, number, Right.DECIDE)
    return found


async def decide_variable_change(
    session: AsyncSession,
    change: VariableChange,
    target: DeployTarget,
    to: ChangeState,
    person: Person,
    actor: Actor,
    now: datetime,
    reason: str | None = None,
    keys: SealingKeys | None = None,
) -> None:
    """Apply a pending change, or reject it for a reason.

    `keys`: needed to apply an update, which is merged with the newest version. Raises `SecondPersonRequired` if the
    requester would apply it, `ForbiddenTransition` for a change that is no longer pending, `Conflict` for an update
    while an older change of the same variables waits, and `CannotOpen`.
    """
    environment, project = target
    await lock_environment_row(session, environment)
    # Lock the change: a key rotation must not seal it under another key meanwhile.
    await session.refresh(change, with_for_update=True)
    if to is ChangeState.APPLIED:
        await check_second_person(session, change.asked_by_id, person, now)
    check_transition(change.current_state, to)
    if to is ChangeState.APPLIED:
        await _apply(session, change, target, person, actor, now, keys)
    change.state = to.value
    change.sealed = change.key_id = None
    change.decided_by_id = person.id
    change.decided_at = now
    action = "variables.approve" if to is ChangeState.APPLIED else "variables.reject"
    subject, details = f"environment {environment.public_id}", {"change": change.id, "reason": reason}
    record_audit_entry(session, actor, project.account_id, action, subject, now, details)
    await session.flush()


async def _apply(
    session: AsyncSession,
    change: VariableChange,
    target: DeployTarget,
    person: Person,
    actor: Actor,
    now: datetime,
    keys: SealingKeys | None,
) -> None:
    environment = target.environment
    if change.kind == ChangeKind.UNPROTECT:
        details = await _describe_agreement(session, change, person)
        await unprotect_variables(session, target, read_changed_names(change).unprotect, actor, now, details)
        return
    if change.sealed is None or change.key_id is None:
        raise ForbiddenTransition(change.current_state, ChangeState.APPLIED)
    sealed, count = Sealed(change.key_id, change.sealed), change.count
    if change.kind == ChangeKind.UPDATE:
        sealed, count = await _merge(session, change, environment, keys)
    else:
        # Updates that were proposed before would alter the result of this replacement.
        await supersede(session, environment, now, [ChangeKind.UPDATE], before_id=change.id)
    # The author is the requester; the change itself names the approver.
    is_update = change.kind == ChangeKind.UPDATE
    await add_version(session, environment, sealed, count, change.asked_by_id, now, is_update=is_update)


async def _merge(
    session: AsyncSession, change: VariableChange, environment: Environment, keys: SealingKeys | None
) -> tuple[Sealed, int]:
    """Return the environment's variables with those of an update, sealed, and their number."""
    await _check_order(session, change, environment)
    if keys is None:
        raise Conflict("An update of variables can be approved only where variables can be opened.")
    current = open_variables(keys, await find_newest_variables(session, environment), environment.public_id)
    values = open_variables(keys, change, environment.public_id)
    merged = merge_update(current, values, frozenset(read_changed_names(change).unset))
    check_total(merged)
    return keys.seal(merged, environment.public_id), len(merged)


async def _check_order(session: AsyncSession, change: VariableChange, environment: Environment) -> None:
    """Raise `Conflict` while an older change of variables of this update waits: approved later, it would silently undo
    the update."""
    names = _list_names(change)
    for older in await find_pending_changes(session, environment, OF_VALUES):
        if older.id >= change.id:
            return
        if older.kind == ChangeKind.REPLACE:
            reason = "replaces all variables"
        elif shared := sorted(names & _list_names(older)):
            reason = f"is of {', '.join(shared[:_MAX_NAMED])} too"
        else:
            continue
        raise Conflict(
            f"Change {older.id} {reason} and was proposed before change {change.id}: decide that change first."
        )


def _list_names(change: VariableChange) -> set[str]:
    names = read_changed_names(change)
    return {*names.set, *names.unset}


async def _describe_agreement(
    session: AsyncSession, change: VariableChange, approver: Person
) -> Mapping[str, Any]:
    query = select(Person.email).where(Person.id == change.asked_by_id)
    requester = (await session.execute(query)).scalar_one_or_none()
    return {"lowered": [UNPROTECTED], "asked_by": requester, "approved_by": approver.email}
