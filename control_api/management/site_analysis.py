"""Analyses of the visits of a site: `/v1/analytics/sites/{site}/figures`, `/lists`, `/conversions`, `/page-speed`."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, TypedDict

from fastapi import Request
from msgspec import Meta, Struct, field

from analytics_queries.visit_analysis.current_visitors import current_visitors
from analytics_queries.visit_analysis.recent_rollups import RecentRollups
from analytics_queries.visit_analysis.visit_lists import LIST_NAMES, ListName
from analytics_queries.visits.calendar_days import days_between
from analytics_queries.visits.pageviews_by_day import DayOfSite, pageviews_by_day
from control_api.management.telemetry_pages import read_store
from control_api.operations.access import At, at, at_account
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import Right
from control_domain.projects.find import in_visible_projects
from control_domain.sites.analysis import VisitAnalysis
from control_domain.sites.analysis_query import (
    MAX_DAYS,
    Comparison,
    Interval,
    PeriodChoice,
    read_conditions,
)
from control_domain.sites.describe_analysis import (
    ConversionsDocument,
    FiguresDocument,
    ListsDocument,
    PageSpeedDocument,
)
from control_domain.sites.manage_sites import find_site
from control_domain.sites.operations import SiteWithProject, list_account_sites, list_goals
from control_domain.tables.accounts import Account
from pipeline_contracts.errors import invalid_field

operations = OperationRouter("Analytics")

_Read = Annotated[At[SiteWithProject], at(find_site, "site", "analytics:read", Right.READ)]
_ReadAccount = Annotated[At[Account], at_account("analytics:read")]
_ACTIVITY_DAYS = 30
_MAX_NAMES = 300
_MAX_FILTERS = 16_384


class AnalysisQuery(Struct, kw_only=True):
    """The period and the visits of an analysis. Days are calendar days of the site's time zone."""

    days: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=MAX_DAYS,
                description="The number of days up to today; by default 30 without `from` and `to`.",
            ),
        ]
        | None
    ) = None
    from_: Annotated[str, Meta(description="The first day, like 2026-11-01.", max_length=10)] | None = field(
        default=None, name="from"
    )
    to: Annotated[str, Meta(description="The last day, like 2026-11-26.", max_length=10)] | None = None
    filters: (
        Annotated[
            str,
            Meta(
                max_length=_MAX_FILTERS,
                description="Conditions that visits must all meet: a JSON list such as "
                '`[["is", "source", ["Google", "Bing"]], ["contains_not", "page", ["/docs"]]]`. Operators: `is`, '
                "`is_not`, `contains`, `contains_not`. Dimensions: `page` (any that was viewed), `entry_page`, "
                "`exit_page`, `source`, `campaign`, `country`, `device`, `browser`, `os`, `event` (any that was sent "
                "on the day). Several "
                "values are alternatives.",
            ),
        ]
        | None
    ) = None


class FiguresQuery(AnalysisQuery, kw_only=True):
    """The period, the visits, and the comparison of figures."""

    compare: Annotated[
        Comparison,
        Meta(
            description="`previous`: the days before; `year`: the same days a year before; `custom`: as many days from "
            "`compare_from`. The last day is compared up to the same time of day as today."
        ),
    ] = "none"
    compare_from: (
        Annotated[str, Meta(description="The first day of a custom comparison.", max_length=10)] | None
    ) = None
    interval: (
        Annotated[
            Interval,
            Meta(
                description="The interval of the series: `hour` for up to 7 days. By default `hour` "
                "for one day, else `day`."
            ),
        ]
        | None
    ) = None


class ListsQuery(AnalysisQuery, kw_only=True):
    """The period, the visits, and the lists."""

    names: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=_MAX_NAMES,
            description=f"Names of lists, separated by commas: {', '.join(f'`{name}`' for name in LIST_NAMES)}.",
            examples=["pages,sources"],
        ),
    ]
    search: Annotated[
        str, Meta(max_length=255, description="Only entries with this text in their names.")
    ] = ""
    limit: Annotated[int, Meta(ge=1, le=1000, description="The largest number of entries of a list.")] = 10


class PageSpeedQuery(AnalysisQuery, kw_only=True):
    """The period and the visits of page speed."""

    by_page: Annotated[
        bool, Meta(description="True to include the 100 pages with the most samples, which takes longer.")
    ] = False


class CurrentVisitors(TypedDict):
    """Visitors of a site with an event in the last 5 minutes."""

    visitors: int


class SiteActivity(TypedDict):
    """The activity on a site."""

    site: int
    current_visitors: int
    pageviews: list[int]


class AccountActivity(TypedDict):
    """The activity of all sites of the account. `days`: the days in UTC that `pageviews` count."""

    days: list[str]
    sites: list[SiteActivity]


def recent_rollups(request: Request) -> RecentRollups:
    """Return this process's knowledge of current rollups of sites."""
    rollups: RecentRollups = request.app.state.recent_rollups
    return rollups


def read_names(names: str) -> Sequence[ListName]:
    """Return the names of lists, each once. Raises `InvalidInput`."""
    found: dict[ListName, None] = {}
    for name in names.split(","):
        known = next((each for each in LIST_NAMES if each == name.strip()), None)
        if known is None:
            raise invalid_field("names", f"must be of {', '.join(LIST_NAMES)}, separated by commas")
        found[known] = None
    return list(found)


def read_choice(params: AnalysisQuery) -> PeriodChoice:
    """Return the days that a query requests."""
    return PeriodChoice(params.days, params.from_, params.to)


async def _start(at: At[SiteWithProject], params: AnalysisQuery) -> VisitAnalysis:
    goals = await list_goals(at.session, at.found.site)
    conditions = read_conditions(params.filters)
    rollups, site = recent_rollups(at.request), at.found.site
    return VisitAnalysis(at.column_store, rollups, site, goals, conditions, read_choice(params), at.now)


@operations.get("/v1/analytics/sites/{site}/figures")
async def read_site_figures(
    at: _Read, params: Annotated[FiguresQuery, query(FiguresQuery)]
) -> FiguresDocument:
    """Read figures of a site.

    Visitors, visits, page views, bounce rate, duration and conversions of a period, by day or hour, compared with
    another period. They are counted in the same way as in the report.
    """
    analysis = await _start(at, params)
    return await read_store(
        at, lambda: analysis.figures(params.compare, params.compare_from, params.interval)
    )


@operations.get("/v1/analytics/sites/{site}/lists")
async def read_site_lists(at: _Read, params: Annotated[ListsQuery, query(ListsQuery)]) -> ListsDocument:
    """Read lists of a site.

    Pages, sources, countries and so on, ordered by visitors.
    """
    names = read_names(params.names)
    analysis = await _start(at, params)
    return await read_store(at, lambda: analysis.lists(names, params.search, params.limit))


@operations.get("/v1/analytics/sites/{site}/conversions")
async def read_site_conversions(
    at: _Read, params: Annotated[AnalysisQuery, query(AnalysisQuery)]
) -> ConversionsDocument:
    """Read how often the goals of a site were reached.

    The response includes revenue by currency.
    """
    analysis = await _start(at, params)
    return await read_store(at, analysis.conversions)


@operations.get("/v1/analytics/sites/{site}/page-speed")
async def read_site_page_speed(
    at: _Read, params: Annotated[PageSpeedQuery, query(PageSpeedQuery)]
) -> PageSpeedDocument:
    """Read the page speed of a site.

    The 75th percentile of each Web Vital, of all pages together and on request of single pages.
    """
    analysis = await _start(at, params)
    return await read_store(at, lambda: analysis.page_speed(by_page=params.by_page))


@operations.get("/v1/analytics/sites/{site}/current-visitors")
async def read_current_visitors(at: _Read) -> CurrentVisitors:
    """Read how many visitors are on a site now.

    Visitors with an event in the last 5 minutes are counted.
    """
    site_id = at.found.site.id
    found = await read_store(at, lambda: current_visitors(at.column_store, [site_id], at.now))
    return {"visitors": found.get(site_id, 0)}


@operations.get("/v1/analytics/activity")
async def read_site_activity(at: _ReadAccount) -> AccountActivity:
    """Read the activity on all sites.

    For each site of the account the visitors with an event in the last 5 minutes, and the page views of the last 30
    days in UTC.
    """
    sites = [
        found.site.id
        for found in await list_account_sites(at.session, at.account, *in_visible_projects(at.caller))
    ]
    today, store = at.now.date(), at.column_store
    days = days_between(today - timedelta(days=_ACTIVITY_DAYS - 1), today)

    async def read() -> tuple[Mapping[int, int], Mapping[DayOfSite, int]]:
        return await current_visitors(store, sites, at.now), await pageviews_by_day(store, sites, days[0])

    present, views = await read_store(at, read)
    return {
        "days": [day.isoformat() for day in days],
        "sites": [
            {
                "site": site,
                "current_visitors": present.get(site, 0),
                "pageviews": [views.get(DayOfSite(site, day), 0) for day in days],
            }
            for site in sites
        ],
    }
