"""Changes the status and the assignee of a group of exceptions.

The column store is read first, without a transaction, to find whether the group exists and has regressed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from msgspec import UNSET, UnsetType
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor
from control_domain.projects.find import DeployTarget
from control_domain.tables.accounts import Account
from control_domain.tables.projects import Environment
from control_domain.telemetry.describe_exceptions import ExceptionStatusDocument, describe_status
from control_domain.telemetry.exceptions import (
    Decisions,
    find_group_regression,
    find_known_groups,
    format_group,
    require_group,
    shown_status,
)
from control_domain.telemetry.releases import read_deployed
from control_domain.telemetry.statuses import (
    MAX_STATUSES,
    OPEN,
    GroupStatus,
    Status,
    change_status,
    find_assignee,
    forget_statuses,
    lock_status,
    read_statuses,
)
from storage_backends.column_store.interface import ColumnStore


@dataclass(frozen=True, slots=True)
class StatusChange:
    """The requested change. None and UNSET leave a value unchanged; the assignee None removes the assignee."""

    status: Status | None
    assignee: str | None | UnsetType


@dataclass(frozen=True, slots=True)
class PreparedChange:
    """The column store's data about a group, which a change of it needs."""

    group_id: str
    decisions: Decisions
    regressed_at: datetime | None
    forgotten: Sequence[str] | None
    """Groups of the environment with a status whose exceptions are no longer stored; None unless the limit is
    reached."""


async def read_decisions(session: AsyncSession, account: Account, environment: Environment) -> Decisions:
    """Return the database's data about the exceptions of the environment: statuses and deployments."""
    return Decisions(
        environment.public_id,
        await read_statuses(session, account, environment),
        await read_deployed(session, environment),
    )


async def prepare_change(store: ColumnStore, decisions: Decisions, group: int) -> PreparedChange:
    """Read the column store's data for a change of the group. Raises `NotFound` and `StorageUnavailable`."""
    await require_group(store, decisions.environment_id, group)
    name = format_group(group)
    forgotten = None
    if len(decisions.statuses) >= MAX_STATUSES and name not in decisions.statuses:
        known = await find_known_groups(store, decisions.environment_id, decisions.statuses)
        forgotten = [each for each in decisions.statuses if each not in known]
    return PreparedChange(name, decisions, await find_group_regression(store, decisions, group), forgotten)


async def apply_change(
    session: AsyncSession,
    account: Account,
    target: DeployTarget,
    prepared: PreparedChange,
    change: StatusChange,
    actor: Actor,
    now: datetime,
    check_version: Callable[[Mapping[str, Any]], None],
) -> ExceptionStatusDocument:
    """Change the group and return its new state. `check_version` is called with the present status and the ID of the
    assignee, which are locked. `now` is when the request began.

    Raises `NotFound`, `InvalidInput`, `Conflict`, and what `check_version` raises.
    """
    assignee = change.assignee
    person = (
        None if assignee is None or assignee is UNSET else await find_assignee(session, account, assignee)
    )
    if prepared.forgotten is not None:
        await forget_statuses(session, target.environment, prepared.forgotten, now)
    row = await lock_status(session, target, prepared.group_id, now)
    present = await _read_status(session, account, target, prepared.group_id)
    # Another person may have resolved the group again since the column store was read.
    earlier = prepared.decisions.statuses.get(prepared.group_id, OPEN)
    regressed_at = prepared.regressed_at if present.resolved_at == earlier.resolved_at else None
    shown = shown_status(present, regressed_at)
    check_version(
        {"status": shown, "assignee": present.assignee["id"] if present.assignee is not None else None}
    )
    await change_status(
        session,
        target,
        row,
        status=change.status,
        shown_status=shown,
        assignee=UNSET if assignee is UNSET else person,
        actor=actor,
        now=now,
    )
    changed = await _read_status(session, account, target, prepared.group_id)
    if changed.resolved_at != present.resolved_at:
        regressed_at = None
    return describe_status(prepared.group_id, changed, regressed_at, prepared.decisions.deployed)


async def _read_status(
    session: AsyncSession, account: Account, target: DeployTarget, group_id: str
) -> GroupStatus:
    return (await read_statuses(session, account, target.environment, [group_id])).get(group_id, OPEN)
