"""What is done with workflow documents: set, and read as they are now."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record
from control_domain.projects.hold import hold_project
from control_domain.tables.projects import Project
from control_domain.tables.workflows import Workflow
from control_domain.workflows.document import WorkflowDocument
from control_domain.workflows.read_workflow import read_workflow


async def set_workflow(
    session: AsyncSession, project: Project, text: str, actor: Actor, now: datetime
) -> tuple[int, WorkflowDocument]:
    """Make this YAML the project's workflow from its next deployment on; gives its version and what it says. The text
    that it has already makes no version.

    Raises `DocumentFault`, and `NotFound` where the project was removed since it was looked for.
    """
    document = read_workflow(text)
    # Versions are counted: one is made at a time.
    await hold_project(session, project)
    present = await find_newest_workflow(session, project.id)
    if present is not None and present.text == text:
        return present.version, document
    version = 1 if present is None else present.version + 1
    session.add(
        Workflow(project_id=project.id, version=version, text=text, set_by_id=actor.person_id, created_at=now)
    )
    subject = f"project {project.public_id}"
    record(session, actor, project.account_id, "workflow.set", subject, now, {"version": version})
    await session.flush()
    return version, document


async def find_newest_workflow(session: AsyncSession, project_id: int) -> Workflow | None:
    """The project's newest version; None: it has never had any."""
    query = (
        select(Workflow).where(Workflow.project_id == project_id).order_by(Workflow.version.desc()).limit(1)
    )
    return (await session.execute(query)).scalar_one_or_none()
