"""Protected variables: names of an environment's variables that are not copied to previews.

Names are protected, not values: variables are replaced as a whole, and a new value of the name is protected too.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.database.statements import insert_if_absent
from control_domain.environments.gates import UNPROTECTED, read_gate
from control_domain.environments.operations import lock_environment_row
from control_domain.projects.find import DeployTarget
from control_domain.sealing import SealingKeys
from control_domain.tables.projects import Environment
from control_domain.tables.variables import ChangeKind, ProtectedVariable, VariableSet
from control_domain.variables.dotenv import MAX_VARIABLES
from control_domain.variables.pending import (
    ChangedNames,
    add_pending_change,
    check_may_wait,
    find_pending_changes,
    read_changed_names,
)
from control_domain.variables.versions import open_variables
from pipeline_contracts.errors import Conflict, NotFound

# A character that names cannot contain.
_SEPARATOR = ","


async def protect_variables(
    session: AsyncSession, target: DeployTarget, names: Sequence[str], actor: Actor, now: datetime
) -> Sequence[str]:
    """Protect the variables of these names, and return those that were not protected before. Raises `NotFound` if the
    environment was removed meanwhile, and `Conflict` if too many names would be protected."""
    await lock_environment_row(session, target.environment)
    added = []
    for name in names:
        values = {"environment_id": target.environment.id, "name": name}
        insert = insert_if_absent(session, ProtectedVariable, values).returning(ProtectedVariable.name)
        if (await session.execute(insert)).scalar_one_or_none() is not None:
            added.append(name)
    if added and len(await list_protected_names(session, target.environment)) > MAX_VARIABLES:
        raise Conflict(
            f"An environment protects at most {MAX_VARIABLES} names of variables. Unprotect some first."
        )
    await _record_names(session, target, "variables.protect", added, actor, now)
    return added


async def unprotect_variables(
    session: AsyncSession,
    target: DeployTarget,
    names: Sequence[str],
    actor: Actor,
    now: datetime,
    approval_details: Mapping[str, Any] | None = None,
) -> Sequence[str]:
    """Unprotect the variables of these names, and return those that were protected. `approval_details` about the second
    person go into the audit log. Raises `NotFound` if the environment was removed meanwhile."""
    await lock_environment_row(session, target.environment)
    mine = ProtectedVariable.environment_id == target.environment.id
    removed = await session.execute(
        delete(ProtectedVariable)
        .where(mine, ProtectedVariable.name.in_(names))
        .returning(ProtectedVariable.name)
        .execution_options(synchronize_session=False)
    )
    unprotected = sorted(removed.scalars())
    await _record_names(session, target, "variables.unprotect", unprotected, actor, now, approval_details)
    return unprotected


async def request_unprotection(
    session: AsyncSession, target: DeployTarget, name: str, actor: Actor, now: datetime
) -> int | None:
    """Unprotect one variable, and return None. If the environment requires a second person, return the ID of the
    pending change instead; a change for this name that waits already is not repeated.

    Raises `NotFound` if the name is not protected or the environment was removed meanwhile, and `Conflict` if too many
    changes wait.
    """
    environment = target.environment
    await lock_environment_row(session, environment)
    if name not in await list_protected_names(session, environment):
        raise NotFound("The environment protects no variable of this name.")
    if not read_gate(environment).needs_second_person:
        await unprotect_variables(session, target, [name], actor, now)
        return None
    for waiting in await find_pending_changes(session, environment, [ChangeKind.UNPROTECT]):
        if name in read_changed_names(waiting).unprotect:
            return waiting.id
    await check_may_wait(session, environment)
    subject, details = f"environment {environment.public_id}", {"names": [name], "lowered": [UNPROTECTED]}
    record_audit_entry(session, actor, target.project.account_id, "variables.propose", subject, now, details)
    names = ChangedNames(unprotect=[name])
    return await add_pending_change(
        session, environment, ChangeKind.UNPROTECT, 1, None, actor.person_id, now, names
    )


async def _record_names(
    session: AsyncSession,
    target: DeployTarget,
    action: str,
    names: Sequence[str],
    actor: Actor,
    now: datetime,
    approval_details: Mapping[str, Any] | None = None,
) -> None:
    if not names:
        return
    subject, details = (
        f"environment {target.environment.public_id}",
        {"names": names, **(approval_details or {})},
    )
    record_audit_entry(session, actor, target.project.account_id, action, subject, now, details)
    await session.flush()


async def list_protected_names(session: AsyncSession, environment: Environment) -> Sequence[str]:
    """Return the protected names, sorted, also those without a variable."""
    query = select(ProtectedVariable.name).where(ProtectedVariable.environment_id == environment.id)
    return sorted((await session.execute(query)).scalars())


async def open_for_preview(
    session: AsyncSession, keys: SealingKeys, environment: Environment
) -> dict[str, str]:
    """Return the environment's variables that a preview gets: all that are not protected. Raises `CannotOpen`."""
    marked = (
        select(func.aggregate_strings(ProtectedVariable.name, _SEPARATOR))
        .where(ProtectedVariable.environment_id == environment.id)
        .scalar_subquery()
    )
    # One statement, for a consistent snapshot: with two, a variable protected in between could leak.
    query = (
        select(VariableSet, marked)
        .where(VariableSet.environment_id == environment.id)
        .order_by(VariableSet.version.desc())
        .limit(1)
    )
    present, names = (await session.execute(query)).one_or_none() or (None, None)
    hidden = set(names.split(_SEPARATOR)) if names else set()
    values = open_variables(keys, present, environment.public_id)
    return {name: value for name, value in values.items() if name not in hidden}
