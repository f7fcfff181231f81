"""Replaces, proposes, approves and opens variables."""

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.environments.operations import lock_environment_row
from control_domain.projects.find import DeployTarget
from control_domain.projects.resolve import check_second_person
from control_domain.sealing import Sealed, SealingKeys
from control_domain.tables.accounts import Person
from control_domain.tables.projects import Environment
from control_domain.tables.variables import VariableChange, VariableSet
from pipeline_contracts.deploy_states import ChangeState, ForbiddenTransition, check_transition


async def replace_variables(
    session: AsyncSession,
    keys: SealingKeys,
    target: DeployTarget,
    values: Mapping[str, str],
    actor: Actor,
    now: datetime,
) -> int | None:
    """Replace all variables of the environment, from the next release on, and return None. If the environment requires
    approval, return the ID of the pending change instead; it supersedes an earlier pending one."""
    environment, project = target
    sealed = keys.seal(values, environment.public_id)
    subject, details = f"environment {environment.public_id}", {"names": sorted(values)}
    await lock_environment_row(session, environment)
    # A pending change must not bring back older variables later.
    await _supersede(session, environment, now)
    if not environment.variables_need_approval:
        await _add_version(session, environment, sealed, len(values), actor.person_id, now)
        record_audit_entry(session, actor, project.account_id, "variables.replace", subject, now, details)
        await session.flush()
        return None
    change = VariableChange(
        environment_id=environment.id,
        state=ChangeState.PENDING.value,
        count=len(values),
        key_id=sealed.key_id,
        sealed=sealed.data,
        asked_by_id=actor.person_id,
        created_at=now,
    )
    session.add(change)
    record_audit_entry(session, actor, project.account_id, "variables.propose", subject, now, details)
    await session.flush()
    return change.id


async def _supersede(session: AsyncSession, environment: Environment, now: datetime) -> None:
    pending = (VariableChange.environment_id == environment.id) & (
        VariableChange.state == ChangeState.PENDING.value
    )
    check_transition(ChangeState.PENDING, ChangeState.SUPERSEDED)
    await session.execute(
        update(VariableChange)
        .where(pending)
        .values(state=ChangeState.SUPERSEDED.value, sealed=None, key_id=None, decided_at=now)
    )


async def _add_version(
    session: AsyncSession,
    environment: Environment,
    sealed: Sealed,
    count: int,
    person_id: int | None,
    now: datetime,
) -> None:
    before = select(func.coalesce(func.max(VariableSet.version), 0)).where(
        VariableSet.environment_id == environment.id
    )
    session.add(
        VariableSet(
            environment_id=environment.id,
            version=(await session.execute(before)).scalar_one() + 1,
            count=count,
            key_id=sealed.key_id,
            sealed=sealed.data,
            set_by_id=person_id,
            created_at=now,
        )
    )
    await session.flush()


async def decide_variable_change(
    session: AsyncSession,
    change: VariableChange,
    target: DeployTarget,
    to: ChangeState,
    person: Person,
    actor: Actor,
    now: datetime,
    reason: str | None = None,
) -> None:
    """Apply a pending change, or reject it for a reason. Raises `Refused` for the requester, and `ForbiddenTransition`
    for a change that is no longer pending."""
    environment, project = target
    await lock_environment_row(session, environment)
    # Lock the change: a key rotation must not seal it under another key meanwhile.
    await session.refresh(change, with_for_update=True)
    check_second_person(change.asked_by_id, person)
    sealed = change.sealed
    check_transition(ChangeState(change.state), to)
    if sealed is None or change.key_id is None:
        raise ForbiddenTransition(ChangeState(change.state), to)
    if to is ChangeState.APPLIED:
        # The author is the requester; the change itself names the approver.
        author_id = change.asked_by_id
        await _add_version(session, environment, Sealed(change.key_id, sealed), change.count, author_id, now)
    change.state = to.value
    change.sealed = change.key_id = None
    change.decided_by_id = person.id
    change.decided_at = now
    action = "variables.approve" if to is ChangeState.APPLIED else "variables.reject"
    subject, details = f"environment {environment.public_id}", {"change": change.id, "reason": reason}
    record_audit_entry(session, actor, project.account_id, action, subject, now, details)
    await session.flush()


async def find_newest_variables(session: AsyncSession, environment: Environment) -> VariableSet | None:
    """Return the environment's newest version of variables; None if it never had any."""
    query = (
        select(VariableSet)
        .where(VariableSet.environment_id == environment.id)
        .order_by(VariableSet.version.desc())
        .limit(1)
    )
    return (await session.execute(query)).scalar_one_or_none()


def open_variables(
    keys: SealingKeys, row: VariableSet | VariableChange | None, environment_id: str
) -> dict[str, str]:
    """Return the variables of a version or a pending change of the environment with this public ID; empty if there is
    none. Raises `CannotOpen`."""
    if row is None or row.sealed is None or row.key_id is None:
        return {}
    return keys.open(Sealed(row.key_id, row.sealed), environment_id)
