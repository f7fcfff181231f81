"""The workflow of a project: `GET /v1/projects/{project}/workflow`."""

from typing import Annotated

from control_api.operations.access import At, at
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import Right
from control_domain.projects.find import find_project
from control_domain.tables.projects import Project
from control_domain.workflows.describe import ProjectWorkflow, read_project_workflow

operations = OperationRouter("Deploy")

_Read = Annotated[At[Project], at(find_project, "project", "deploy:read", Right.READ)]


@operations.get("/v1/projects/{project}/workflow")
async def read_workflow(at: _Read) -> ProjectWorkflow | None:
    """Read the workflow of a project.

    The newest version, as text and as the document that Pharos read from it. Null if none was set: `pharos.yaml` in
    the repository then defines how the project is built.
    """
    return await read_project_workflow(at.session, at.found)
