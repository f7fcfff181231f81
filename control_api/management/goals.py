"""Goals of sites: `/v1/analytics/sites/{site}/goals`."""

from typing import Annotated

from msgspec import Struct

from control_api.operations.access import At, at
from control_api.operations.bodies import json_body
from control_api.operations.pages import PageOf, PageQuery, read_pages
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import Right
from control_domain.sites import manage_goals
from control_domain.sites.describe import GoalDocument, describe_goal
from control_domain.sites.manage_sites import find_site
from control_domain.sites.operations import SiteWithProject
from control_domain.sites.settings import GoalEvent, GoalName, GoalPath
from pipeline_contracts.errors import Conflict, NameTaken

operations = OperationRouter("Analytics")

_Read = Annotated[At[SiteWithProject], at(find_site, "site", "analytics:read", Right.READ)]
_Change = Annotated[At[SiteWithProject], at(find_site, "site", "analytics:write", Right.DEPLOY)]


class CreateGoal(Struct, kw_only=True):
    """A new goal. Either `event` or `path` is required; it is also the name unless one is given."""

    name: GoalName | None = None
    event: GoalEvent | None = None
    path: GoalPath | None = None


class UpdateGoal(Struct, kw_only=True):
    """The fields of a goal that change. `event` replaces `path`, and vice versa."""

    name: GoalName | None = None
    event: GoalEvent | None = None
    path: GoalPath | None = None


@operations.get("/v1/analytics/sites/{site}/goals")
async def list_goals(at: _Read, params: Annotated[PageQuery, query(PageQuery)]) -> PageOf[GoalDocument]:
    """List the goals of a site.

    The newest first.
    """
    pages = read_pages(at, params, f"goals of site {at.found.site.id}")
    goals, has_more = await manage_goals.list_goals(at.session, at.found, pages.page)
    return pages.answer([describe_goal(goal) for goal in goals], goals[-1].id if has_more else None)


@operations.post("/v1/analytics/sites/{site}/goals", status=201, problems=[NameTaken, Conflict])
async def create_goal(at: _Change, body: Annotated[CreateGoal, json_body(CreateGoal)]) -> GoalDocument:
    """Create a goal of a site.

    It also counts past visits. A site has up to 100 goals.
    """
    goal = await manage_goals.add_goal(
        at.session, at.found, body.name, body.event, body.path, at.actor, at.now
    )
    return describe_goal(goal)


@operations.patch("/v1/analytics/sites/{site}/goals/{goal}", problems=[NameTaken])
async def update_goal(at: _Change, body: Annotated[UpdateGoal, json_body(UpdateGoal)]) -> GoalDocument:
    """Change a goal of a site.

    Past visits are counted by the new event or path.
    """
    goal = await manage_goals.update_goal(
        at.session, at.found, at.number("goal"), body.name, body.event, body.path, at.actor, at.now
    )
    return describe_goal(goal)


@operations.delete("/v1/analytics/sites/{site}/goals/{goal}")
async def delete_goal(at: _Change) -> GoalDocument:
    """Remove a goal of a site.

    Its events stay stored.
    """
    goal = await manage_goals.remove_goal(at.session, at.found, at.number("goal"), at.actor, at.now)
    return describe_goal(goal)
