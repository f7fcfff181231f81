"""Creates and changes environments, with their audit entries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from msgspec import UNSET, UnsetType
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.database.errors import BrokenReference
from control_domain.environments.describe import describe_settings
from control_domain.environments.gates import (
    check_lowers_nothing,
    find_lowered,
    read_gate,
    require_approval_of_copies,
)
from control_domain.environments.locks import DeployLock, find_lock, lock_environment, unlock_environment
from control_domain.environments.operations import lock_environment_row
from control_domain.environments.windows import BadWindow, dump_window, parse_window
from control_domain.projects.find import DeployTarget
from control_domain.projects.operations import create_environment, lock_project_row
from control_domain.slugs import check_name, check_reason, choose_slug
from control_domain.tables.projects import Project
from pipeline_contracts.errors import Conflict, NameTaken, NotFound, invalid_field
from pipeline_contracts.git_refs import is_ref

MAX_ORDER = 1000


@dataclass(frozen=True, slots=True)
class NewEnvironment:
    """The settings of a new environment."""

    name: str
    type: str
    slug: str | None = None
    """None to make one from the name."""
    order: int | None = None
    """None for the default of the type."""
    branch: str | None = None


@dataclass(frozen=True, slots=True)
class SettingChanges:
    """New settings of an environment; settings that are UNSET stay unchanged."""

    name: str | UnsetType = UNSET
    order: int | UnsetType = UNSET
    branch: str | None | UnsetType = UNSET
    window: str | None | UnsetType = UNSET
    deploys_need_approval: bool | UnsetType = UNSET
    variables_need_approval: bool | UnsetType = UNSET
    wake_on_request: bool | UnsetType = UNSET


async def add_environment(
    session: AsyncSession, project: Project, new: NewEnvironment, actor: Actor, now: datetime
) -> DeployTarget:
    """Create an environment without keys.

    Raises `InvalidInput`, `NameTaken` if the project has an environment with the slug already, and `Conflict` if it has
    too many.
    """
    name = check_name(new.name)
    slug = choose_slug(new.slug, name)
    branch = _check_branch(new.branch)
    await lock_project_row(session, project)
    try:
        async with session.begin_nested():
            environment = await create_environment(session, project, name, slug, new.type, now)
    except BrokenReference:
        raise
    except IntegrityError:
        raise NameTaken(f"The project has an environment with the slug {slug} already.") from None
    environment.branch = branch
    if new.order is not None:
        environment.position = new.order
    details = {"project": project.public_id, "name": name, "slug": slug, "type": new.type}
    subject = f"environment {environment.public_id}"
    record_audit_entry(session, actor, project.account_id, "environment.create", subject, now, details)
    await session.flush()
    return DeployTarget(environment, project)


async def change_environment(
    session: AsyncSession, target: DeployTarget, changes: SettingChanges, actor: Actor, now: datetime
) -> Sequence[str]:
    """Change settings of the locked environment. Return the slugs of the previews whose deploys need approval from now
    on, because they have copies of its variables.

    Raises `InvalidInput`, and `SecondPersonRequired` if the changes lower the environment's gate.
    """
    environment = target.environment
    values = _read_columns(changes)
    before, gate = describe_settings(environment), read_gate(environment)
    for column, value in values.items():
        setattr(environment, column, value)
    check_lowers_nothing(environment, find_lowered(gate, read_gate(environment)))
    details = _describe_changes(before, describe_settings(environment))
    if not details:
        return []
    account, subject = target.project.account_id, f"environment {environment.public_id}"
    record_audit_entry(session, actor, account, "environment.set", subject, now, details)
    await session.flush()
    if gate.deploys or not environment.deploys_need_approval:
        return []
    return await require_approval_of_copies(session, target, actor, now)


def _read_columns(changes: SettingChanges) -> dict[str, Any]:
    """Return the columns to change with their new values. Raises `InvalidInput`."""
    given = {
        field.name: value for field in fields(changes) if (value := getattr(changes, field.name)) is not UNSET
    }
    if "name" in given:
        given["name"] = check_name(given["name"])
    if "order" in given:
        given["position"] = given.pop("order")
    if "branch" in given:
        given["branch"] = _check_branch(given["branch"])
    if "window" in given:
        given["deploy_window"] = _read_window(given.pop("window"))
    return given


def _check_branch(branch: str | None) -> str | None:
    if branch is not None and not is_ref(branch):
        raise invalid_field("branch", "must be the name of a branch that Git allows, such as main")
    return branch


def _read_window(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return dump_window(parse_window(text))
    except BadWindow as error:
        reason = str(error)
        raise invalid_field(
            "window", f"is not a valid deploy window: {reason[:1].lower()}{reason[1:].rstrip('.')}"
        ) from error


def _describe_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    return {name: {"from": was, "to": after[name]} for name, was in before.items() if was != after[name]}


async def set_lock(
    session: AsyncSession, target: DeployTarget, reason: str, actor: Actor, now: datetime
) -> None:
    """Lock the environment; nothing changes if this person has already locked it for the same reason.

    Raises `InvalidInput` for the reason, `Conflict` if it is locked otherwise, and `NotFound` if it was removed.
    """
    reason = check_reason(reason)
    await lock_environment_row(session, target.environment)
    if await lock_environment(session, target, reason, actor, now):
        return
    held = await find_lock(session, target.environment)
    if held is None:
        raise Conflict("Somebody has unlocked the environment just now: lock it again.")
    if held.reason != reason or held.by_id != actor.person_id:
        since = f"{held.since:%Y-%m-%d %H:%M} UTC"
        raise Conflict(
            f"The environment is locked already, by {held.by or 'an operator'} since {since}: {held.reason}"
        )


async def remove_lock(session: AsyncSession, target: DeployTarget, actor: Actor, now: datetime) -> DeployLock:
    """Unlock the environment and return the removed lock. Raises `NotFound` if it is not locked."""
    await lock_environment_row(session, target.environment)
    removed = await unlock_environment(session, target, actor, now)
    if removed is None:
        raise NotFound("The environment is not locked.")
    return removed
