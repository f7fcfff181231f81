"""Public details of reviews: their author, the gates that they lower, and the run that applied them."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

from msgspec import Meta
from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.describe import PersonSummary, summarize_person
from control_domain.configurations.addresses import read_address
from control_domain.configurations.lowered_gates import find_lowered_gates
from control_domain.configurations.plan import Action, Change
from control_domain.configurations.project_state import read_project_state
from control_domain.configurations.resources import ProjectState
from control_domain.configurations.reviews import derive_status
from control_domain.paging import Page
from control_domain.sealing import SealingKeys
from control_domain.tables.accounts import Person
from control_domain.tables.configuration import ConfigurationRun, Review
from control_domain.tables.projects import Project
from pipeline_contracts.errors import NotFound
from pipeline_contracts.times import format_time

_Status = Literal["open", "applied", "expired"]


class ConfigurationReviewSummary(TypedDict):
    """A configuration review, without its plan."""

    id: int
    status: _Status
    summary: Annotated[
        dict[str, int], Meta(description="The number of actions of each kind: create, update, delete.")
    ]
    made_by: Annotated[PersonSummary | None, Meta(description="Null for an operator of the installation.")]
    created_at: str
    expires_at: str
    application_id: Annotated[int | None, Meta(description="The application of the review, once applied.")]


class ConfigurationReviewDetails(ConfigurationReviewSummary):
    """A configuration review with its frozen plan."""

    plan: Annotated[
        dict[str, Any], Meta(extra_json_schema={"$ref": "#/components/schemas/ConfigurationPlan"})
    ]
    lowered_gates: Annotated[
        list[str],
        Meta(
            description="While the review is open: the gates that it lowers, such as `the approval of deploys of "
            "environments.production`. If there are any, a person other than its author applies it."
        ),
    ]


class ListedReview(NamedTuple):
    """A review, its author, and the ID of the run that applied it."""

    review: Review
    made_by: Person | None
    run_id: int | None


def _select_reviews(project: Project) -> Select[Review, Person, int]:
    return (
        select(Review, Person, ConfigurationRun.id)
        .outerjoin(Person, Person.id == Review.made_by_id)
        .outerjoin(ConfigurationRun, ConfigurationRun.review_id == Review.id)
        .where(Review.project_id == project.id)
    )


async def list_reviews(
    session: AsyncSession, project: Project, page: Page
) -> tuple[Sequence[ListedReview], bool]:
    """Return a page of the project's reviews, the newest first, and whether more follow."""
    query = _select_reviews(project).order_by(Review.id.desc()).limit(page.limit + 1)
    if page.before is not None:
        query = query.where(Review.id < page.before)
    found = [ListedReview(*row) for row in await session.execute(query)]
    return found[: page.limit], len(found) > page.limit


async def find_review_details(
    session: AsyncSession, keys: SealingKeys, project: Project, number: int | None, now: datetime
) -> ConfigurationReviewDetails:
    """Return the project's review with this ID. Raises `NotFound` and `CannotOpen`."""
    row = (await session.execute(_select_reviews(project).where(Review.id == number))).one_or_none()
    if row is None:
        raise NotFound("The project has no such review.")
    found = ListedReview(*row)
    plan = json.loads(found.review.plan)
    lowered: list[str] = []
    if derive_status(found.review, now) == "open":
        state = await read_project_state(session, keys, project)
        lowered = [*find_gates_lowered_by(plan, state)]
    return {**summarize_review(found, now), "plan": plan, "lowered_gates": lowered}


def find_gates_lowered_by(plan: dict[str, Any], state: ProjectState) -> Sequence[str]:
    """Name the gates that a plan (JSON of the public API) lowers; the fields of gates are never masked."""
    actions = [
        Action(
            action["action"],
            read_address(action["resource"]),
            [Change(change["field"], change["from"], change["to"]) for change in action["changes"]],
        )
        for action in plan["actions"]
    ]
    return find_lowered_gates(actions, state)


def summarize_review(found: ListedReview, now: datetime) -> ConfigurationReviewSummary:
    """Return the review as JSON, without its plan."""
    review = found.review
    return {
        "id": review.id,
        "status": derive_status(review, now),
        "summary": json.loads(review.plan)["summary"],
        "made_by": None if found.made_by is None else summarize_person(found.made_by),
        "created_at": format_time(review.created_at),
        "expires_at": format_time(review.expires_at),
        "application_id": found.run_id,
    }
