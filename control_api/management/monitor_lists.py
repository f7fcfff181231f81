"""The filters of the lists of heartbeats and queues."""

from typing import Annotated

from msgspec import Meta

from control_api.operations.access import At
from control_api.operations.pages import PageQuery
from control_domain.accounts.roles import Right
from control_domain.monitors.listing import MonitorFilters
from control_domain.projects.find import find_environment, find_project
from control_domain.tables.accounts import Account


class MonitorQuery(PageQuery, kw_only=True):
    """The page and the filters of a list of monitors."""

    project: Annotated[
        str | None, Meta(description="Only monitors of the project with this ID or number.")
    ] = None
    environment: Annotated[
        str | None, Meta(description="Only monitors of the environment with this ID or number.")
    ] = None
    name: Annotated[str | None, Meta(description="Only monitors with this name.")] = None
    search: Annotated[
        Annotated[str, Meta(min_length=1, max_length=100)] | None,
        Meta(description="Only monitors whose name contains this text, in any case."),
    ] = None


async def read_filters(at: At[Account], params: MonitorQuery, state: str | None = None) -> MonitorFilters:
    """Return the filters of these parameters. Raises `NotFound` and `DeployNotAllowed`, like IDs in paths."""
    project = environment = None
    if params.project is not None:
        project = await find_project(at.session, at.caller, params.project, Right.READ)
    if params.environment is not None:
        target = await find_environment(at.session, at.caller, params.environment, Right.READ)
        environment = target.environment
    return MonitorFilters(
        project=project, environment=environment, name=params.name, search=params.search, state=state
    )
