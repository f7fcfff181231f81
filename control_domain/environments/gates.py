"""The gates of an environment: lock, state, deploy window and approvals.

Lowering a gate needs a second person too, whichever way it is lowered. Previews that have copies of an environment's
variables also get its approvals.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.environments.windows import DeployWindow, load_window, read_window
from control_domain.projects.find import DeployTarget
from control_domain.tables.accounts import Person
from control_domain.tables.projects import UNKNOWN_SOURCE_ID, Environment, EnvironmentLock
from pipeline_contracts.deploy_states import EnvironmentState
from pipeline_contracts.errors import (
    EnvironmentLocked,
    EnvironmentNotReady,
    FieldError,
    NotFound,
    OutsideWindow,
    SecondPersonRequired,
)

REMOVED = "the environment itself"
UNPROTECTED = "the protection of variables"


@dataclass(frozen=True, slots=True)
class Gate:
    """The settings that keep a single person from changing what an environment runs."""

    deploys: bool
    variables: bool
    window: DeployWindow | None

    @property
    def needs_second_person(self) -> bool:
        """True if deploys or variables need a second person."""
        return self.deploys or self.variables


def read_gate(environment: Environment) -> Gate:
    """Return the gate of the environment."""
    return Gate(
        environment.deploys_need_approval,
        environment.variables_need_approval,
        load_window(environment.deploy_window),
    )


def read_gate_fields(fields: Mapping[str, Any]) -> Gate:
    """Return the gate of an environment from the fields of a configuration."""
    window = fields.get("window")
    return Gate(
        bool(fields.get("approval.deploys")),
        bool(fields.get("approval.variables")),
        None if window is None else read_window(window),
    )


def find_lowered(before: Gate, after: Gate | None) -> Sequence[str]:
    """Return names of the restrictions that are removed or weakened; empty if `before` needed no second person.

    `after` is None if the environment is removed, because it could be created again without a gate.
    """
    if not before.needs_second_person:
        return []
    if after is None:
        return [REMOVED]
    lowered = []
    if before.deploys and not after.deploys:
        lowered.append("the approval of deploys")
    if before.variables and not after.variables:
        lowered.append("the approval of variables")
    if before.window is not None and not before.window.covers(after.window):
        lowered.append("limits of the deploy window")
    return lowered


def check_lowers_nothing(environment: Environment, lowered: Sequence[str]) -> None:
    """Raise `SecondPersonRequired` if one person alone would lower the gate of the environment."""
    if not lowered:
        return
    # A configuration does not see previews.
    advice = (
        "Close the preview instead."
        if environment.type == "preview"
        else "One person makes a configuration review of the change, and another one applies it."
    )
    raise SecondPersonRequired(
        f"{environment.slug} requires a second person, and this would remove {' and '.join(lowered)}. {advice}"
    )


async def lock_variables_source(session: AsyncSession, source: Environment) -> None:
    """Lock the environment and its variables until the end of the transaction, before they are copied to a preview.

    Call this before locking the preview: a transaction that turns a gate on locks the two in this order. SQLite does
    not lock on reads; there, the transaction is the only writer once it has created or locked the preview.
    """
    query = select(Environment.id).where(Environment.id == source.id).with_for_update(read=True)
    await session.execute(query)


async def require_approval_of_copies(
    session: AsyncSession, source: DeployTarget, actor: Actor, now: datetime
) -> Sequence[str]:
    """Turn approvals on in every environment that has a copy of the variables of `source`, or whose source is unknown;
    return their slugs. The caller has locked `source` and turned its gate on."""
    copies = await _find_copies(session, source.environment)
    for copy in copies:
        require_approval(session, DeployTarget(copy, source.project), source, actor, now)
    await session.flush()
    return sorted(copy.slug for copy in copies)


async def _find_copies(session: AsyncSession, source: Environment) -> Sequence[Environment]:
    query = (
        select(Environment)
        .where(
            Environment.project_id == source.project_id,
            or_(Environment.variables_of_id == source.id, Environment.variables_of_id == UNKNOWN_SOURCE_ID),
            Environment.deploys_need_approval.is_(False),
            Environment.id != source.id,
        )
        .order_by(Environment.id)
        .with_for_update(key_share=True)
    )
    return (await session.execute(query.execution_options(populate_existing=True))).scalars().all()


def require_approval(
    session: AsyncSession, target: DeployTarget, source: DeployTarget, actor: Actor, now: datetime
) -> None:
    """Make deploys wait for approval in an environment that has variables of `source`."""
    environment = target.environment
    environment.deploys_need_approval = True
    details = {"deploys_need_approval": {"from": False, "to": True}, "variables_of": source.environment.slug}
    account, subject = target.project.account_id, f"environment {environment.public_id}"
    record_audit_entry(session, actor, account, "environment.set", subject, now, details)


async def check_accepts_deployments(session: AsyncSession, environment: Environment, now: datetime) -> None:
    """Refresh `environment` and raise unless it accepts a deployment now.

    `environment` may have been read half a minute ago, before the body of the request arrived. Raises
    `EnvironmentLocked`, `OutsideWindow` or `EnvironmentNotReady`, and `NotFound` if it was removed meanwhile.
    """
    found = (
        await session.execute(
            select(Environment, EnvironmentLock.reason, Person.name)
            .outerjoin(EnvironmentLock, EnvironmentLock.environment_id == Environment.id)
            .outerjoin(Person, Person.id == EnvironmentLock.person_id)
            .where(Environment.id == environment.id)
            .execution_options(populate_existing=True)
        )
    ).one_or_none()
    if found is None:
        raise NotFound("The account has no such environment.")
    _, reason, name = found
    if reason is not None:
        fault = f"is locked by {name or 'an operator'}: {reason}"
        raise EnvironmentLocked(f"The environment {fault}", errors=[FieldError("locked", fault)])
    window = load_window(environment.deploy_window)
    if window is not None and not window.is_open(now):
        raise OutsideWindow(
            f"The environment accepts deploys only {window}.", errors=[FieldError("window", f"is {window}")]
        )
    if environment.state != EnvironmentState.RUNNING:
        raise EnvironmentNotReady(
            "The environment is hibernated: wake it first.", errors=[FieldError("state", "is hibernated")]
        )
