"""Variables as an operator handles them: shown by name, protected, replaced, decided on, sealed again. No value is ever
told."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.roles import Right
from control_domain.audit import make_operator, record_audit_entry
from control_domain.environments.gates import UNPROTECTED, read_gate, require_second_person
from control_domain.environments.operations import lock_environment_row
from control_domain.key_rotation import reseal
from control_domain.projects.find import DeployTarget
from control_domain.projects.resolve import resolve_member, resolve_target
from control_domain.refusals import Refused
from control_domain.sealing import CannotOpen, SealingKeys
from control_domain.tables.accounts import Person
from control_domain.tables.deployments import LiveRelease, Release
from control_domain.tables.projects import Environment, Project
from control_domain.tables.variables import VariableChange, VariableSet
from control_domain.variables import decisions, operations, versions
from control_domain.variables.dotenv import read_dotenv
from control_domain.variables.pending import merge_pending
from control_domain.variables.protection import (
    list_protected_names,
    protect_variables,
    read_names,
    unprotect_variables,
)
from operator_actions.actions.engines import Action, Engines, Params, read_id
from operator_actions.actions.reasons import read_reason
from operator_actions.actions.refuse_problems import refuse_problems
from pipeline_contracts.deploy_states import ChangeState
from pipeline_contracts.errors import InvalidInput
from pipeline_contracts.times import format_time

MOST_RESEALED = 500
_MOST_FAULTS = 5


async def _show(engines: Engines, params: Params, now: datetime) -> Any:
    """The names of the newest version, its number, when it was set and by whom; and `protected`, the names that are,
    whether or not they are set. `not_live`: a release is live that has another version. `params`: environment_id."""
    keys = engines.sealing_keys()
    async with engines.sessions() as session:
        target = await resolve_target(session, params.get("environment_id"))
        present = await versions.find_newest_variables(session, target.environment)
        by = None if present is None else await _email(session, present.set_by_id)
        pending_id = await _pending_id(session, target.environment)
        protected = await list_protected_names(session, target.environment)
        not_live = await _is_not_live(session, target.environment, present)
    with _opening():
        names = list(versions.open_variables(keys, present, target.environment.public_id))
    return {
        **_called(target),
        "version": None if present is None else present.version,
        "names": names,
        "protected": list(protected),
        "set_at": None if present is None else format_time(present.created_at),
        "set_by": by,
        "pending_change_id": pending_id,
        "not_live": not_live,
    }


async def _is_not_live(session: AsyncSession, environment: Environment, present: VariableSet | None) -> bool:
    live = select(Release.variables_id).join(LiveRelease, LiveRelease.release_id == Release.id)
    row = (await session.execute(live.where(LiveRelease.environment_id == environment.id))).first()
    return row is not None and row.variables_id != (None if present is None else present.id)


def _called(target: DeployTarget) -> dict[str, Any]:
    return {
        "environment_id": target.environment.public_id,
        "environment": target.environment.slug,
        "project": target.project.slug,
    }


async def _protect(engines: Engines, params: Params, now: datetime) -> Any:
    """Let no preview get a copy of these from now on. `params`: environment_id, names. `added`: those that were not
    protected before; `missing`: those that the environment does not have yet."""
    names, keys = read_names(params), engines.sealing_keys()
    async with engines.sessions() as session, session.begin():
        target = await resolve_target(session, params.get("environment_id"))
        with refuse_problems("The environment", "run the command again."):
            added = await protect_variables(session, target, names, make_operator(params), now)
        protected = await list_protected_names(session, target.environment)
        present = await versions.find_newest_variables(session, target.environment)
        with _opening():
            known = versions.open_variables(keys, present, target.environment.public_id)
    missing = [name for name in names if name not in known]
    return {**_called(target), "protected": list(protected), "added": list(added), "missing": missing}


async def _unprotect(engines: Engines, params: Params, now: datetime) -> Any:
    """Let previews get these again. `params`: environment_id, names, and where a second person is wanted there, by and
    approved_by. `removed`: those that were protected."""
    names = read_names(params)
    async with engines.sessions() as session, session.begin():
        target = await resolve_target(session, params.get("environment_id"))
        with refuse_problems("The environment", "run the command again."):
            await lock_environment_row(session, target.environment)
        lowered = [UNPROTECTED] if read_gate(target.environment).needs_second_person else []
        called = f"{target.project.slug}/{target.environment.slug}"
        agreed = await require_second_person(session, target.project, called, lowered, params)
        removed = await unprotect_variables(session, target, names, make_operator(params), now, agreed)
        protected = await list_protected_names(session, target.environment)
    return {**_called(target), "protected": list(protected), "removed": list(removed)}


async def _set(engines: Engines, params: Params, now: datetime) -> Any:
    """Replace all variables. `params`: environment_id, text (dotenv), by (an e-mail address; needed where a second
    person has to agree). `change_id` is that of the change that waits, null where it counts at once."""
    keys = engines.sealing_keys()
    values = _read_values(str(params.get("text") or ""))
    async with engines.sessions() as session, session.begin():
        target = await resolve_target(session, params.get("environment_id"))
        by = params.get("by")
        person = None if by is None else await resolve_member(session, target.project, by, Right.DEPLOY)
        actor = make_operator(params, None if person is None else person.id)
        with refuse_problems("The change", "run the command again."):
            change_id = await operations.replace_variables(session, keys, target, values, actor, now)
        if change_id is not None and person is None:
            # Whoever asks must not be the one who agrees.
            raise Refused(
                "A second person has to agree to variables of this environment: say who asks for them with --by EMAIL."
            )
    return {**_called(target), "count": len(values), "change_id": change_id}


def _read_values(text: str) -> dict[str, str]:
    try:
        return read_dotenv(text)
    except InvalidInput as error:
        faults = [fault.message for fault in error.errors]
        if len(faults) > _MOST_FAULTS:
            faults[_MOST_FAULTS:] = [f"and {len(faults) - _MOST_FAULTS} more"]
        raise Refused(
            f"{'; '.join(faults)}. Correct this and set them all again; nothing was changed."
        ) from error


async def _list_waiting(engines: Engines, params: Params, now: datetime) -> Any:
    """The changes that wait for a second person, with the names that each would add, change and remove. `names` is
    null where the variables cannot be opened here, and `warning` says why."""
    query = _changes().where(VariableChange.state == ChangeState.PENDING).order_by(VariableChange.id)
    async with engines.sessions() as session:
        waiting = []
        for change, environment, project, email in await session.execute(query):
            present = await versions.find_newest_variables(session, environment)
            told = {
                "id": change.id,
                **_called(DeployTarget(environment, project)),
                "count": change.count,
                "asked_by": email,
                "created_at": format_time(change.created_at),
            }
            try:
                names = _compare(engines.sealing_keys(), change, present, environment)
                waiting.append({**told, "names": names})
            except (Refused, CannotOpen) as error:
                waiting.append({**told, "names": None, "warning": str(error)})
    return waiting


def _changes() -> Any:
    return (
        select(VariableChange, Environment, Project, Person.email)
        .join(Environment, Environment.id == VariableChange.environment_id)
        .join(Project, Project.id == Environment.project_id)
        .outerjoin(Person, Person.id == VariableChange.asked_by_id)
    )


def _compare(
    keys: SealingKeys, change: VariableChange, present: VariableSet | None, environment: Environment
) -> dict[str, list[str]]:
    before = versions.open_variables(keys, present, environment.public_id)
    after = merge_pending(keys, present, [change], environment.public_id)
    return {
        "added": sorted(after.keys() - before.keys()),
        "changed": sorted(name for name in after.keys() & before.keys() if after[name] != before[name]),
        "removed": sorted(before.keys() - after.keys()),
    }


async def _approve(engines: Engines, params: Params, now: datetime) -> Any:
    """Make the change's variables those of the environment. `params`: id, by (an e-mail address)."""
    return await _decide(engines, params, ChangeState.APPLIED, now, None)


async def _reject(engines: Engines, params: Params, now: datetime) -> Any:
    """Turn a change down. `params`: id, by, reason."""
    return await _decide(engines, params, ChangeState.REJECTED, now, read_reason(params))


async def _decide(
    engines: Engines, params: Params, to: ChangeState, now: datetime, reason: str | None
) -> dict[str, Any]:
    number = read_id(params, "id")
    try:
        keys = engines.sealing_keys()
    except Refused:
        keys = None
    async with engines.sessions() as session, session.begin():
        row = (await session.execute(_changes().where(VariableChange.id == number))).one_or_none()
        if row is None:
            raise Refused(
                f"There is no change {number} of variables; `pharos approvals` shows those that wait."
            )
        change, target = row[0], DeployTarget(row[1], row[2])
        person = await resolve_member(session, target.project, str(params.get("by") or ""), Right.DECIDE)
        advice = "only one that waits can be decided on; `pharos approvals` shows those that do."
        with refuse_problems(f"Change {number} of variables", advice):
            await decisions.decide_variable_change(
                session, change, target, to, person, make_operator(params, person.id), now, reason, keys
            )
        return {"id": number, "status": to.value, **_called(target), "count": change.count}


async def _rotate_key(engines: Engines, params: Params, now: datetime) -> Any:
    """Seal up to 500 rows of each table under the first of the keys; asked again until nothing is `left`."""
    keys = engines.sealing_keys()
    async with engines.sessions() as session, session.begin():
        with _opening():
            resealed = await reseal(session, keys, MOST_RESEALED)
        if resealed.done:
            details = {"sets": resealed.done}
            record_audit_entry(
                session, make_operator(params), None, "variables.reseal", f"key {keys.key_id}", now, details
            )
    return {"resealed": resealed.done, "left": resealed.left, "key_id": keys.key_id}


@contextmanager
def _opening() -> Iterator[None]:
    try:
        yield
    except CannotOpen as error:
        raise Refused(str(error)) from error


async def _email(session: AsyncSession, person_id: int | None) -> str | None:
    query = select(Person.email).where(Person.id == person_id)
    return (await session.execute(query)).scalar_one_or_none()


async def _pending_id(session: AsyncSession, environment: Environment) -> int | None:
    query = select(func.max(VariableChange.id)).where(
        VariableChange.environment_id == environment.id, VariableChange.state == ChangeState.PENDING
    )
    return (await session.execute(query)).scalar_one_or_none()


ACTIONS: Mapping[str, Action] = {
    "variables/show": _show,
    "variables/protect": _protect,
    "variables/unprotect": _unprotect,
    "variables/set": _set,
    "variables/waiting": _list_waiting,
    "variables/approve": _approve,
    "variables/reject": _reject,
    "variables/rotate-key": _rotate_key,
}
