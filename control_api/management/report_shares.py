"""Links to the report of a site: `/v1/analytics/sites/{site}/shares`."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from control_api.operations.access import At, at
from control_api.operations.bodies import json_body
from control_api.operations.pages import PageOf, PageQuery, read_pages
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import Right
from control_domain.sites import shares
from control_domain.sites.manage_sites import find_site, lock_site
from control_domain.sites.operations import SiteWithProject
from control_domain.sites.shares import CreatedShare, ShareDocument, describe_share
from pipeline_contracts.errors import Conflict

operations = OperationRouter("Analytics")

_Read = Annotated[At[SiteWithProject], at(find_site, "site", "analytics:read", Right.READ)]
_Change = Annotated[At[SiteWithProject], at(find_site, "site", "analytics:write", Right.DEPLOY)]


class CreateShare(Struct, kw_only=True):
    """A link to the report of a site."""

    name: Annotated[
        str,
        Meta(min_length=1, max_length=100, description="For whom the link is.", examples=["The board"]),
    ]
    expires_at: (
        Annotated[
            datetime,
            Meta(
                tz=True,
                description="When the link expires, within ten years. By default it works until it is revoked.",
            ),
        ]
        | None
    ) = None


@operations.get("/v1/analytics/sites/{site}/shares")
async def list_report_shares(
    at: _Read, params: Annotated[PageQuery, query(PageQuery)]
) -> PageOf[ShareDocument]:
    """List the links to the report of a site.

    The newest first, without their secrets.
    """
    pages = read_pages(at, params, f"shares of site {at.found.site.id}")
    found, has_more = await shares.list_shares(at.session, at.found, pages.page)
    return pages.answer(
        [describe_share(each, at.now) for each in found], found[-1].share.id if has_more else None
    )


@operations.post("/v1/analytics/sites/{site}/shares", status=201, problems=[Conflict], secret=True)
async def create_report_share(
    at: _Change, body: Annotated[CreateShare, json_body(CreateShare)]
) -> CreatedShare:
    """Create a link to the report of a site.

    Anybody who has the link can read the report, without signing in, until it expires or is revoked. The response has
    the secret of the link, which is not shown again. A site has up to 50 live links.
    """
    await lock_site(at.session, at.found.site)
    found, secret = await shares.add_share(
        at.session, at.caller, at.found, body.name, body.expires_at, at.actor, at.now
    )
    return {**describe_share(found, at.now), "secret": secret}


@operations.delete("/v1/analytics/sites/{site}/shares/{share}")
async def revoke_report_share(at: _Change) -> ShareDocument:
    """Revoke a link to the report of a site.

    The link stops working at once. A revoked link stays unchanged.
    """
    found = await shares.revoke_share(at.session, at.found, at.number("share"), at.actor, at.now)
    return describe_share(found, at.now)
