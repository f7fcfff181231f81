"""Replaces and updates variables, or proposes the change in an environment that requires approval."""

from collections.abc import Collection, Mapping
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.environments.operations import lock_environment_row
from control_domain.projects.find import DeployTarget
from control_domain.sealing import SealingKeys
from control_domain.tables.variables import ChangeKind
from control_domain.variables.check_values import check_total
from control_domain.variables.pending import (
    OF_VALUES,
    ChangedNames,
    add_pending_change,
    check_may_wait,
    supersede,
)
from control_domain.variables.versions import (
    add_version,
    find_newest_variables,
    merge_update,
    open_variables,
)


async def replace_variables(
    session: AsyncSession,
    keys: SealingKeys,
    target: DeployTarget,
    values: Mapping[str, str],
    actor: Actor,
    now: datetime,
) -> int | None:
    """Replace all variables of the environment, from the next release on, and return None. If the environment requires
    approval, return the ID of the pending change instead; it supersedes an earlier replacement that waits."""
    environment, project = target
    sealed = keys.seal(values, environment.public_id)
    subject, details = f"environment {environment.public_id}", {"names": sorted(values)}
    await lock_environment_row(session, environment)
    if not environment.variables_need_approval:
        # A pending change must not bring back older variables later.
        await supersede(session, environment, now, OF_VALUES)
        await add_version(session, environment, sealed, len(values), actor.person_id, now, is_update=False)
        record_audit_entry(session, actor, project.account_id, "variables.replace", subject, now, details)
        await session.flush()
        return None
    await supersede(session, environment, now, [ChangeKind.REPLACE])
    record_audit_entry(session, actor, project.account_id, "variables.propose", subject, now, details)
    return await add_pending_change(
        session, environment, ChangeKind.REPLACE, len(values), sealed, actor.person_id, now
    )


async def update_variables(
    session: AsyncSession,
    keys: SealingKeys,
    target: DeployTarget,
    values: Mapping[str, str],
    removed: Collection[str],
    actor: Actor,
    now: datetime,
    author_id: int | None = None,
) -> int | None:
    """Set `values`, remove the variables named by `removed`, keep all others, and return None. If the environment
    requires approval, return the ID of the pending change instead. It is merged when it is approved, so it keeps the
    variables that others have set until then.

    `author_id`: the person who wrote the values, if this is not the actor. An author is never the second person.
    Raises `CannotOpen`, and `Conflict` if the environment would have too many variables, or too many changes wait.
    """
    environment, project = target
    await lock_environment_row(session, environment)
    current = open_variables(keys, await find_newest_variables(session, environment), environment.public_id)
    merged = merge_update(current, values, frozenset(removed))
    check_total(merged)
    subject = f"environment {environment.public_id}"
    details = {"names": sorted(values), "removed": sorted(set(removed))}
    author_id = author_id or actor.person_id
    if not environment.variables_need_approval:
        await supersede(session, environment, now, OF_VALUES)
        if merged == current:
            # Each version stores all variables, up to 256 KiB, so setting the same values again does not add a
            # version.
            return None
        sealed = keys.seal(merged, environment.public_id)
        await add_version(session, environment, sealed, len(merged), author_id, now, is_update=True)
        record_audit_entry(session, actor, project.account_id, "variables.update", subject, now, details)
        await session.flush()
        return None
    await check_may_wait(session, environment)
    names = ChangedNames(set=details["names"], unset=details["removed"])
    sealed = keys.seal(values, environment.public_id)
    record_audit_entry(session, actor, project.account_id, "variables.propose", subject, now, details)
    return await add_pending_change(
        session, environment, ChangeKind.UPDATE, len(values), sealed, author_id, now, names
    )
