"""The configuration of a project, and what was reviewed and applied of it."""

from typing import Annotated

from control_api.document_errors import converting_configuration_faults
from control_api.operations.access import At, at
from control_api.operations.pages import PageOf, PageQuery, read_pages
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import Right
from control_domain.configurations.export import ProjectConfiguration, export_project
from control_domain.configurations.listing import (
    ConfigurationApplicationSummary,
    describe_listed_run,
    list_runs,
)
from control_domain.configurations.reviews import (
    ConfigurationReviewDocument,
    describe_review,
    find_review,
)
from control_domain.projects.find import find_project
from control_domain.tables.projects import Project

operations = OperationRouter("Deploy")

_Read = Annotated[At[Project], at(find_project, "project", "deploy:read", Right.READ)]


@operations.get("/v1/projects/{project}/configuration")
async def export_configuration(at: _Read) -> ProjectConfiguration:
    """Export a project as a configuration document.

    A document of the project as it is now, to be edited, planned and applied. It has no values of variables.
    """
    with converting_configuration_faults():
        return await export_project(at.session, at.sealing_keys, at.found)


@operations.get("/v1/projects/{project}/configuration/applications")
async def list_applications(
    at: _Read, page: Annotated[PageQuery, query(PageQuery)]
) -> PageOf[ConfigurationApplicationSummary]:
    """List the applications of configuration reviews.

    Newest first, each with the number of its operations by status.
    """
    pages = read_pages(at, page, f"applications of {at.found.public_id}")
    runs, has_more = await list_runs(at.session, at.found, pages.page)
    return pages.answer(
        [describe_listed_run(listed) for listed in runs], runs[-1].run.id if has_more else None
    )


@operations.get("/v1/projects/{project}/configuration/reviews/{review}")
async def read_review(at: _Read) -> ConfigurationReviewDocument:
    """Read a configuration review.

    The plan that was frozen, and whether it can still be applied.
    """
    review = await find_review(at.session, at.found, at.number("review"))
    return describe_review(review, at.now)
