"""Workflow documents as an operator handles them: set, shown, checked."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from control_domain.documents.faults import DocumentFault
from control_domain.projects.describe import summarize_project
from control_domain.projects.resolve import resolve_project, resolve_requester
from control_domain.refusals import Refused
from control_domain.tables.accounts import Person
from control_domain.workflows import operations
from control_domain.workflows.document import to_json
from control_domain.workflows.read_workflow import read_workflow
from operator_actions.actions.engines import Action, Engines, Params
from operator_actions.actions.refuse_problems import refuse_problems
from pipeline_contracts.times import format_time


async def _set(engines: Engines, params: Params, now: datetime) -> Any:
    """Set the workflow of a project. `params`: text (YAML), project_id (optional if there is only one project), by (an
    e-mail address; optional)."""
    text = str(params.get("text") or "")
    async with engines.sessions() as session, session.begin():
        project = await resolve_project(session, params.get("project_id"))
        actor = await resolve_requester(session, project, params)
        with _reading(), refuse_problems("The project", "run the command again."):
            version, document = await operations.set_workflow(session, project, text, actor, now)
        return {"project": summarize_project(project), "version": version, "document": to_json(document)}


async def _show(engines: Engines, params: Params, now: datetime) -> Any:
    """`params`: project_id. Without a workflow yet, all but `project` is null. Where `document` alone is null, `fault`
    says why: this version of Pharos is stricter than the one that took the text."""
    async with engines.sessions() as session:
        project = await resolve_project(session, params.get("project_id"))
        present = await operations.find_newest_workflow(session, project.id)
        if present is None:
            nothing = dict.fromkeys(("version", "text", "document", "fault", "created_at", "set_by"))
            return {"project": summarize_project(project), **nothing}
        by = None if present.set_by_id is None else await session.get_one(Person, present.set_by_id)
    return {
        "project": summarize_project(project),
        "version": present.version,
        "text": present.text,
        **_read_stored(present.text),
        "created_at": format_time(present.created_at),
        "set_by": None if by is None else by.email,
    }


def _read_stored(text: str) -> Mapping[str, Any]:
    try:
        return {"document": to_json(read_workflow(text)), "fault": None}
    except DocumentFault as error:
        return {"document": None, "fault": str(error)}


async def _check(engines: Engines, params: Params, now: datetime) -> Any:
    """`params`: text. Nothing is stored."""
    with _reading():
        return {"document": to_json(read_workflow(str(params.get("text") or "")))}


@contextmanager
def _reading() -> Iterator[None]:
    """What is wrong with a document is `Refused`, with every fault's line and place."""
    try:
        yield
    except DocumentFault as error:
        told = str(error)
        end = "" if told.endswith("?") else "."
        raise Refused(f"{told}{end} Correct this and send it again; nothing was changed.") from error


ACTIONS: Mapping[str, Action] = {"workflows/set": _set, "workflows/show": _show, "workflows/check": _check}
