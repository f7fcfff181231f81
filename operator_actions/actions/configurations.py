"""Configurations as an operator handles them: planned, reviewed, applied, followed, exported."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.roles import Right
from control_domain.audit import Actor
from control_domain.configurations.addresses import write_address
from control_domain.configurations.cancel_or_retry import cancel_or_retry_step
from control_domain.configurations.documents.bindings import BadBindings
from control_domain.configurations.documents.read_document import BadConfiguration, read_configuration
from control_domain.configurations.documents.write_document import write_document
from control_domain.configurations.project_state import read_project_state
from control_domain.configurations.reviews import create_review, describe_review, plan_project
from control_domain.configurations.runs import STEP_TRANSITIONS, describe_run, describe_step, list_steps
from control_domain.configurations.start_run import start_run
from control_domain.documents.faults import DocumentFault
from control_domain.projects.describe import summarize_project
from control_domain.projects.resolve import (
    check_second_person,
    resolve_member,
    resolve_project,
    resolve_requester,
)
from control_domain.refusals import Refused
from control_domain.sealing import CannotOpen
from control_domain.tables.configuration import ConfigurationRun, Review, RunStep
from control_domain.tables.projects import Project
from operator_actions.actions.engines import Action, Engines, Params, read_id
from operator_actions.actions.refuse_problems import refuse_problems

_MOST_LISTED = 50


async def _plan(engines: Engines, params: Params, now: datetime) -> Any:
    """`params`: project_id (may be left out where there is one), document (YAML), bindings."""
    keys = engines.sealing_keys()
    async with engines.sessions() as session:
        project = await resolve_project(session, params.get("project_id"))
        with _refusing():
            plan = await plan_project(session, keys, project, *_read(params))
    return {"project": summarize_project(project), "plan": plan.to_json()}


async def _review(engines: Engines, params: Params, now: datetime) -> Any:
    """The same, and the plan is frozen for 15 minutes. `params`: as for a plan, and by (an e-mail address, which may be
    left out)."""
    keys = engines.sealing_keys()
    async with engines.sessions() as session, session.begin():
        project = await resolve_project(session, params.get("project_id"))
        actor = await resolve_requester(session, project, params)
        with _refusing():
            plan = await plan_project(session, keys, project, *_read(params))
        review = await create_review(session, keys, project, plan, actor, now)
        return {"project": summarize_project(project), "review": describe_review(review, now)}


def _read(params: Params) -> tuple[str, Mapping[str, Any]]:
    return str(params.get("document") or ""), params.get("bindings") or {}


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except DocumentFault as error:
        lines = ["The document cannot be used:", *(f"  {fault}" for fault in error.faults)]
        if isinstance(error, BadConfiguration):
            lines += _tell_bindings(error.binding_faults)
        raise Refused("\n".join(lines)) from error
    except BadBindings as error:
        raise Refused("\n".join(_tell_bindings(error.faults))) from error
    except CannotOpen as error:
        raise Refused(str(error)) from error


def _tell_bindings(faults: Sequence[tuple[str, str]]) -> list[str]:
    told = (f"  {name}: {why}" if name else f"  {why}" for name, why in faults)
    return ["The bindings cannot be used:", *told]


async def _apply(engines: Engines, params: Params, now: datetime) -> Any:
    """Start a review's application. `params`: review_id, by (an e-mail address; needed where variables are changed for
    which a second person has to agree), approved_by (needed where a gate is lowered)."""
    keys = engines.sealing_keys()
    number = read_id(params, "review_id")
    async with engines.sessions() as session, session.begin():
        project, review = await _find(session, Review, number, "review")
        actor = await resolve_requester(session, project, params)
        if actor.person_id is None:
            await _check_askable(session, engines, project, review)
        with _refusing(), refuse_problems("The review", "make a new one."):
            second_id = await _choose_second(session, project, actor, params)
            application = await start_run(session, keys, project, number, actor, now, second_id)
        return await _described(session, project, application)


async def _choose_second(session: AsyncSession, project: Project, actor: Actor, params: Params) -> int | None:
    called = params.get("approved_by")
    if called is None:
        return None
    second = await resolve_member(session, project, str(called), Right.DECIDE)
    check_second_person(actor.person_id, second)
    return second.id


async def _check_askable(session: AsyncSession, engines: Engines, project: Project, review: Review) -> None:
    """Whoever asks must not be the one who agrees."""
    state = await read_project_state(session, engines.sealing_keys(), project)
    guarded = {
        write_address(address)
        for address, present in state.resources.items()
        if present.fields.get("approval.variables")
    }
    for action in json.loads(review.plan)["actions"]:
        sets_variables = any(change["field"].startswith("variables.") for change in action["changes"])
        if sets_variables and action["action"] == "update" and action["resource"] in guarded:
            raise Refused(
                f"A second person has to agree to variables of {action['resource']}: say who asks for them with --by "
                "EMAIL."
            )


async def _find(session: AsyncSession, table: Any, number: int, kind: str) -> tuple[Project, Any]:
    query = select(Project, table).join(table, table.project_id == Project.id).where(table.id == number)
    row = (await session.execute(query)).one_or_none()
    if row is None:
        raise Refused(f"There is no {kind} {number}; `pharos config applications` shows what was applied.")
    return row[0], row[1]


async def _described(
    session: AsyncSession, project: Project, application: ConfigurationRun
) -> dict[str, Any]:
    operations = await list_steps(session, application.id)
    return {"project": summarize_project(project), **describe_run(application, operations)}


async def _show(engines: Engines, params: Params, now: datetime) -> Any:
    """An application with its operations. `params`: id."""
    async with engines.sessions() as session:
        project, application = await _find(session, ConfigurationRun, read_id(params, "id"), "application")
        return await _described(session, project, application)


async def _list(engines: Engines, params: Params, now: datetime) -> Any:
    """The newest applications, the newest first, each with the `counts` of its operations by status. `params`:
    project_id, which may be left out."""
    async with engines.sessions() as session:
        newest = select(ConfigurationRun, Project).join(Project, Project.id == ConfigurationRun.project_id)
        if (called := params.get("project_id")) is not None:
            newest = newest.where(Project.id == (await resolve_project(session, called)).id)
        rows = (await session.execute(newest.order_by(ConfigurationRun.id.desc()).limit(_MOST_LISTED))).all()
        counts: dict[int, dict[str, int]] = {application.id: {} for application, _ in rows}
        by_status = (
            select(RunStep.run_id, RunStep.status, func.count())
            .where(RunStep.run_id.in_(counts))
            .group_by(RunStep.run_id, RunStep.status)
        )
        for number, status, count in await session.execute(by_status):
            counts[number][status] = count
    listed = []
    for application, project in rows:
        told = {"project": summarize_project(project), **describe_run(application, [])}
        del told["operations"]
        listed.append({**told, "counts": counts[application.id]})
    return listed


async def _operate(engines: Engines, params: Params, now: datetime) -> Any:
    """Cancel an operation, or have it tried again. `params`: application_id, operation_id, action, by (an e-mail
    address; needed where a gate is lowered)."""
    wish = str(params.get("action"))
    if wish not in STEP_TRANSITIONS:
        raise Refused(f"An operation takes {' or '.join(sorted(STEP_TRANSITIONS))}.")
    numbers = read_id(params, "application_id"), read_id(params, "operation_id")
    async with engines.sessions() as session, session.begin():
        project, _ = await _find(session, ConfigurationRun, numbers[0], "application")
        actor: Actor = await resolve_requester(session, project, params)
        keys = engines.sealing_keys() if wish == "retry" else None
        approved_by_id = await _find_decider(session, project, params)
        with _refusing(), refuse_problems("The operation", "`pharos config show` says how it is."):
            operation = await cancel_or_retry_step(
                session, project, *numbers, wish, actor, now, keys, approved_by_id
            )
        return describe_step(operation)


async def _find_decider(session: AsyncSession, project: Project, params: Params) -> int | None:
    """The person whom `by` names, where that one may decide in the project."""
    if params.get("by") is None:
        return None
    try:
        return (await resolve_member(session, project, str(params["by"]), Right.DECIDE)).id
    except Refused:
        return None


async def _export(engines: Engines, params: Params, now: datetime) -> Any:
    """The project as it is, as a document. `params`: project_id. `fault` says why it would not be taken: there may be
    more in a project than a document may say; else it is null."""
    keys = engines.sealing_keys()
    async with engines.sessions() as session:
        project = await resolve_project(session, params.get("project_id"))
        with _refusing():
            document = write_document(await read_project_state(session, keys, project))
    fault = None
    try:
        read_configuration(document, {}, lambda value: keys.digest(value, project.public_id))
    except DocumentFault as error:
        fault = f"The document would not be taken as it is: {error}."
    return {"project": summarize_project(project), "document": document, "fault": fault}


ACTIONS: Mapping[str, Action] = {
    "configuration/plan": _plan,
    "configuration/review": _review,
    "configuration/apply": _apply,
    "configuration/show": _show,
    "configuration/list": _list,
    "configuration/operate": _operate,
    "configuration/export": _export,
}
