"""Reports that a link opens, without an API token: `/v1/shared-report`.

The secret of the link is in the body, so that it does not appear in logs of URLs.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, TypedDict, TypeVar

from fastapi import Depends, Request
from msgspec import Meta, Struct

from analytics_queries.visit_analysis.current_visitors import current_visitors
from control_api.http.client_address import client_address
from control_api.limits.shared_report_queue import run_shared_report
from control_api.management.site_analysis import (
    AnalysisQuery,
    CurrentVisitors,
    FiguresQuery,
    ListsQuery,
    PageSpeedQuery,
    read_choice,
    read_names,
    recent_rollups,
)
from control_api.operations.access import WithoutToken, without_token
from control_api.operations.bodies import json_body
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_api.request_session import end_transaction
from control_domain.sites.analysis import VisitAnalysis
from control_domain.sites.analysis_query import read_conditions
from control_domain.sites.describe_analysis import (
    ConversionsDocument,
    FiguresDocument,
    ListsDocument,
    PageSpeedDocument,
)
from control_domain.sites.operations import list_goals
from control_domain.sites.shares import OpenedShare, open_share
from pipeline_contracts.errors import NotFound, StorageUnavailable, Unavailable
from storage_backends.column_store.interface import ColumnStore

operations = OperationRouter("Analytics")

T = TypeVar("T")

# Entries of a list in an answer that is cached for several readers.
_KEPT_ENTRIES = 100


class OpenReport(Struct, kw_only=True):
    """The secret of a link to a report."""

    secret: Annotated[
        str, Meta(max_length=200, description="The secret of the link.", examples=["phr_shr_…"])
    ]


class SharedSite(TypedDict):
    """The site of a shared report."""

    name: str
    timezone: str


_Opened = Annotated[WithoutToken, without_token()]
_Body = Annotated[OpenReport, json_body(OpenReport)]


def _request(request: Request) -> Request:
    return request


_Request = Annotated[Request, Depends(_request)]


async def _start(
    request: Request, opened: WithoutToken, body: OpenReport, params: AnalysisQuery
) -> tuple[OpenedShare, VisitAnalysis]:
    share = await open_share(opened.session, body.secret, opened.now)
    goals = await list_goals(opened.session, share.site)
    conditions = read_conditions(params.filters)
    store: ColumnStore = request.app.state.report_store
    rollups = recent_rollups(request)
    await end_transaction(opened.session)
    return share, VisitAnalysis(
        store, rollups, share.site, goals, conditions, read_choice(params), opened.now
    )


async def _run(
    request: Request, share: OpenedShare, make: Callable[[], Awaitable[T]], *, is_kept: bool = True
) -> T:
    """Run a read of the column store in the queue of shared reports, once for equal requests at about the same
    time."""
    address = client_address(request, request.app.state.client_addresses)
    try:
        return await run_shared_report(request, address, share.share.id, make, is_kept=is_kept)
    except StorageUnavailable as error:
        raise Unavailable("The column store does not answer now.") from error


@operations.post("/v1/shared-report", problems=[NotFound])
async def open_shared_report(opened: _Opened, body: _Body) -> SharedSite:
    """Open a shared report.

    Needs no API token: the secret of the link gives access to the report of one site. 404 for a secret that is
    unknown, expired or revoked.
    """
    share = await open_share(opened.session, body.secret, opened.now)
    return {"name": share.site.name, "timezone": share.site.timezone}


@operations.post("/v1/shared-report/figures", problems=[NotFound])
async def read_shared_figures(
    incoming: _Request, opened: _Opened, body: _Body, params: Annotated[FiguresQuery, query(FiguresQuery)]
) -> FiguresDocument:
    """Read figures of a shared report.

    Needs no API token, like opening the report.
    """
    share, analysis = await _start(incoming, opened, body, params)
    return await _run(
        incoming, share, lambda: analysis.figures(params.compare, params.compare_from, params.interval)
    )


@operations.post("/v1/shared-report/lists", problems=[NotFound])
async def read_shared_lists(
    incoming: _Request, opened: _Opened, body: _Body, params: Annotated[ListsQuery, query(ListsQuery)]
) -> ListsDocument:
    """Read lists of a shared report.

    Needs no API token, like opening the report.
    """
    names = read_names(params.names)
    share, analysis = await _start(incoming, opened, body, params)
    is_kept = params.limit <= _KEPT_ENTRIES and not params.search
    return await _run(
        incoming, share, lambda: analysis.lists(names, params.search, params.limit), is_kept=is_kept
    )


@operations.post("/v1/shared-report/conversions", problems=[NotFound])
async def read_shared_conversions(
    incoming: _Request, opened: _Opened, body: _Body, params: Annotated[AnalysisQuery, query(AnalysisQuery)]
) -> ConversionsDocument:
    """Read how often the goals of a shared report were reached.

    Needs no API token, like opening the report.
    """
    share, analysis = await _start(incoming, opened, body, params)
    return await _run(incoming, share, analysis.conversions)


@operations.post("/v1/shared-report/page-speed", problems=[NotFound])
async def read_shared_page_speed(
    incoming: _Request, opened: _Opened, body: _Body, params: Annotated[PageSpeedQuery, query(PageSpeedQuery)]
) -> PageSpeedDocument:
    """Read the page speed of a shared report.

    Needs no API token, like opening the report.
    """
    share, analysis = await _start(incoming, opened, body, params)
    return await _run(incoming, share, lambda: analysis.page_speed(by_page=params.by_page))


@operations.post("/v1/shared-report/current-visitors", problems=[NotFound])
async def read_shared_current_visitors(incoming: _Request, opened: _Opened, body: _Body) -> CurrentVisitors:
    """Read how many visitors are on the site of a shared report now.

    Needs no API token, like opening the report.
    """
    share = await open_share(opened.session, body.secret, opened.now)
    await end_transaction(opened.session)
    store, site_id = incoming.app.state.report_store, share.site.id
    found = await _run(incoming, share, lambda: current_visitors(store, [site_id], opened.now))
    return {"visitors": found.get(site_id, 0)}
