"""Exports projects as configuration documents."""

from typing import Annotated, TypedDict

from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.configurations.documents.read_document import read_configuration
from control_domain.configurations.documents.write_document import write_document
from control_domain.configurations.project_state import read_project_state
from control_domain.documents.faults import DocumentFault
from control_domain.sealing import SealingKeys
from control_domain.tables.projects import Project


class ProjectConfiguration(TypedDict):
    """A project as a configuration document."""

    document: Annotated[
        str,
        Meta(
            description="YAML without values of variables. Its plan changes nothing until somebody edits it."
        ),
    ]
    fault: Annotated[
        str | None,
        Meta(
            description="Why the document cannot be planned: for example, a project may have more resources than a "
            "document may contain. Null if it can be planned."
        ),
    ]


async def export_project(session: AsyncSession, keys: SealingKeys, project: Project) -> ProjectConfiguration:
    """Return the present state of the project as a document. Raises `CannotOpen`, and `NotFound` if the project was
    removed meanwhile."""
    document = write_document(await read_project_state(session, keys, project))
    fault = None
    try:
        read_configuration(document, {}, lambda value: keys.digest(value, project.public_id))
    except DocumentFault as error:
        fault = str(error)
    return {"document": document, "fault": fault}
