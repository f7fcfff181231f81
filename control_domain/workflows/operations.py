"""Store and find the versions of a project's workflow document."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.projects.operations import lock_project_row
from control_domain.tables.projects import Project
from control_domain.tables.workflows import Workflow
from control_domain.workflows.document import WorkflowDocument
from control_domain.workflows.read_workflow import read_workflow


async def set_workflow(
    session: AsyncSession, project: Project, text: str, actor: Actor, now: datetime
) -> tuple[int, WorkflowDocument]:
    """Make this YAML the project's workflow from its next deployment on; return its version and the document. An
    unchanged text creates no version.

    Raises `DocumentFault`, and `NotFound` if the project was removed in the meantime.
    """
    document = read_workflow(text)
    # Lock: the next version number depends on the newest one.
    await lock_project_row(session, project)
    newest = await find_newest_workflow(session, project.id)
    if newest is not None and newest.text == text:
        return newest.version, document
    version = 1 if newest is None else newest.version + 1
    session.add(
        Workflow(project_id=project.id, version=version, text=text, set_by_id=actor.person_id, created_at=now)
    )
    subject = f"project {project.public_id}"
    record_audit_entry(session, actor, project.account_id, "workflow.set", subject, now, {"version": version})
    await session.flush()
    return version, document


async def find_newest_workflow(session: AsyncSession, project_id: int) -> Workflow | None:
    """Return the project's newest workflow; None if it has none."""
    query = (
        select(Workflow).where(Workflow.project_id == project_id).order_by(Workflow.version.desc()).limit(1)
    )
    return (await session.execute(query)).scalar_one_or_none()
