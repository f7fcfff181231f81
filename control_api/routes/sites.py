"""`GET /v1/analytics/sites` and `GET /v1/analytics/sites/{site}/report`."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from analytics_queries.visits.last_events import last_events
from control_api.authentication import signed_in
from control_api.limits.report_queue import run_queued_report
from control_api.request_session import Session, end_transaction
from control_domain.accounts.operations import Caller
from control_domain.database.public_ids import parse_number
from control_domain.sites.operations import describe_site, find_account_site, list_account_sites, list_goals
from control_domain.sites.reports import make_report, read_report_query
from pipeline_contracts.errors import NotFound, StorageUnavailable, Unavailable

router = APIRouter(prefix="/api", tags=["Analytics"])

_Reader = Annotated[Caller, Depends(signed_in("analytics:read"))]
_STORE_UNAVAILABLE = "The column store does not answer now."


@router.get("/v1/analytics/sites")
async def read_sites(request: Request, caller: _Reader, session: Session) -> dict[str, Any]:
    """Return the sites that the token can read; 429 if too many reports of the account wait."""
    sites = await list_account_sites(session, caller.account)
    await end_transaction(session)
    site_ids = [entry.site.id for entry in sites]
    store = request.app.state.report_store
    try:
        # Queued like a report, because it reads as many rows as a short one.
        last = await run_queued_report(
            request, caller.account.id, lambda: last_events(store, site_ids, datetime.now(UTC))
        )
    except StorageUnavailable as error:
        raise Unavailable(_STORE_UNAVAILABLE) from error
    return {"data": [describe_site(entry, last.get(entry.site.id)) for entry in sites]}


@router.get("/v1/analytics/sites/{site}/report")
async def read_report(site: str, request: Request, caller: _Reader, session: Session) -> dict[str, Any]:
    """Return a report of a site's visits: figures, series, lists, goals and page speed. 404 for another account's
    site, 422 for an invalid query, 429 if too many reports of the account wait."""
    number = parse_number(site)
    seen = None if number is None else await find_account_site(session, caller.account, number)
    if seen is None:
        raise NotFound("The account has no such site.")
    query = read_report_query(request.query_params.multi_items())
    goals = await list_goals(session, seen.site)
    await end_transaction(session)
    store = request.app.state.report_store
    try:
        report = await run_queued_report(
            request,
            caller.account.id,
            lambda: make_report(store, seen.site, goals, query, datetime.now(UTC)),
        )
    except StorageUnavailable as error:
        raise Unavailable(_STORE_UNAVAILABLE) from error
    return {"data": report}
