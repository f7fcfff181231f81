"""Documents of workflows, as the public API returns them."""

from typing import Annotated, Any, TypedDict

from msgspec import Meta
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.describe import PersonSummary, summarize_person
from control_domain.documents.faults import DocumentFault
from control_domain.tables.accounts import Person
from control_domain.tables.projects import Project
from control_domain.tables.workflows import Workflow
from control_domain.workflows.document import to_json
from control_domain.workflows.operations import find_newest_workflow
from control_domain.workflows.read_workflow import read_workflow
from pipeline_contracts.times import format_time


class ProjectWorkflow(TypedDict):
    """The newest version of a project's workflow."""

    version: Annotated[int, Meta(description="From 1 in each project.")]
    text: Annotated[str, Meta(description="The YAML text as it was set.")]
    document: Annotated[
        Annotated[dict[str, Any], Meta(extra_json_schema={"$ref": "#/components/schemas/WorkflowDocument"})]
        | None,
        Meta(description="The document that Pharos read from the text. Null with a `fault`."),
    ]
    fault: Annotated[
        str | None,
        Meta(
            description="Why this version of Pharos would not accept the text, for example because "
            "rules became stricter. Otherwise null."
        ),
    ]
    set_by: Annotated[PersonSummary | None, Meta(description="Null for an operator.")]
    set_at: str


async def read_project_workflow(session: AsyncSession, project: Project) -> ProjectWorkflow | None:
    """Return the document of the project's workflow; None before the first was set."""
    present = await find_newest_workflow(session, project.id)
    if present is None:
        return None
    query = select(Person).where(Person.id == present.set_by_id)
    return _describe(present, (await session.execute(query)).scalar_one_or_none())


def _describe(workflow: Workflow, set_by: Person | None) -> ProjectWorkflow:
    document, fault = None, None
    try:
        document = to_json(read_workflow(workflow.text))
    except DocumentFault as error:
        fault = str(error)
    return {
        "version": workflow.version,
        "text": workflow.text,
        "document": document,
        "fault": fault,
        "set_by": None if set_by is None else summarize_person(set_by),
        "set_at": format_time(workflow.created_at),
    }
