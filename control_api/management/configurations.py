"""The configuration of a project, and its reviews and applications."""

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
from control_domain.configurations.review_details import (
    ConfigurationReviewDetails,
    ConfigurationReviewSummary,
    find_review_details,
    list_reviews,
    summarize_review,
)
from control_domain.projects.find import find_project
from control_domain.tables.projects import Project

operations = OperationRouter("Deploy")

_Read = Annotated[At[Project], at(find_project, "project", "deploy:read", Right.READ)]


@operations.get("/v1/projects/{project}/configuration")
async def export_configuration(at: _Read) -> ProjectConfiguration:
    """Export a project as a configuration document.

    A document that describes the project as it is now. Edit it, plan it, and apply it. It has no values of variables.
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


@operations.get("/v1/projects/{project}/configuration/reviews")
async def list_configuration_reviews(
    at: _Read, page: Annotated[PageQuery, query(PageQuery)]
) -> PageOf[ConfigurationReviewSummary]:
    """List the configuration reviews of a project.

    Newest first, without their plans. Reviews that were not applied are listed for 30 days.
    """
    pages = read_pages(at, page, f"reviews of {at.found.public_id}")
    found, has_more = await list_reviews(at.session, at.found, pages.page)
    return pages.answer(
        [summarize_review(each, at.now) for each in found], found[-1].review.id if has_more else None
    )


@operations.get("/v1/projects/{project}/configuration/reviews/{review}")
async def read_review(at: _Read) -> ConfigurationReviewDetails:
    """Read a configuration review.

    The frozen plan, whether it can still be applied, and who may apply it.
    """
    with converting_configuration_faults():
        return await find_review_details(at.session, at.sealing_keys, at.found, at.number("review"), at.now)
