"""What is done with workflow documents: set, and read as they are now."""

from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.audit.operations import Actor, record
from control_api.projects.tables import Project
from control_api.workflows.document import WorkflowDocument
from control_api.workflows.read_workflow import read_workflow
from control_api.workflows.tables import Workflow
from pipeline_contracts.errors import NotFound


async def set_workflow(
    session: AsyncSession, project: Project, text: str, actor: Actor, now: datetime
) -> tuple[int, WorkflowDocument]:
    """Make this YAML the project's workflow from its next deployment on; gives its version and what it says. The text
    that it has already makes no version.

    Raises `DocumentFault`, and `NotFound` where the project was removed since it was looked for.
    """
    document = read_workflow(text)
    await _hold_project(session, project)
    present = await present_workflow(session, project.id)
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


async def present_workflow(session: AsyncSession, project_id: int) -> Workflow | None:
    """The project's newest version; None: it has never had any."""
    query = (
        select(Workflow).where(Workflow.project_id == project_id).order_by(Workflow.version.desc()).limit(1)
    )
    return (await session.execute(query)).scalar_one_or_none()


async def _hold_project(session: AsyncSession, project: Project) -> None:
    """Let nobody else set the project's workflow until the end of the transaction: versions are counted.

    An update, because SQLite locks nothing when it reads.
    """
    held = await session.execute(
        update(Project)
        .where(Project.id == project.id)
        .values(name=Project.name)
        .returning(Project.id)
        .execution_options(synchronize_session=False)
    )
    if held.scalar_one_or_none() is None:
        raise NotFound("The account has no such project.")
