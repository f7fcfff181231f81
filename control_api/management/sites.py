"""Settings of sites: `/v1/analytics/sites/{site}`. The list of sites and the reports are in `control_api/routes/`."""

from datetime import timedelta
from typing import Annotated, Any

import msgspec
from msgspec import Struct

from analytics_queries.visits.dropped_events import dropped_events
from analytics_queries.visits.last_events import last_events
from control_api.limits.report_queue import run_queued_report
from control_api.operations.access import At, at
from control_api.operations.bodies import json_body
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import Right
from control_domain.projects.find import find_project
from control_domain.sites import manage_sites
from control_domain.sites.describe import (
    Received,
    RemovedSite,
    SiteDetails,
    SiteSettingsDocument,
    describe_removed_site,
    describe_site_details,
    describe_site_settings,
)
from control_domain.sites.manage_sites import find_site, lock_site
from control_domain.sites.operations import SiteWithProject, remove_site
from control_domain.sites.settings import Domains, SiteChanges, SiteName, Timezone
from control_domain.tables.projects import Project
from control_domain.tables.sites import Site
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.errors import Conflict, NameTaken, StorageUnavailable

operations = OperationRouter("Analytics")

_Read = Annotated[At[SiteWithProject], at(find_site, "site", "analytics:read", Right.READ)]
_Change = Annotated[At[SiteWithProject], at(find_site, "site", "analytics:write", Right.DEPLOY)]
_DROPPED_SINCE = timedelta(days=30)


class CreateSite(Struct, kw_only=True):
    """A new site. Its name is the host of the first domain unless it is given."""

    name: SiteName | None = None
    domains: Domains
    timezone: Timezone = "UTC"


class UpdateSite(Struct, kw_only=True):
    """The settings of a site that change. `domains` replaces all domains of the site."""

    name: SiteName | None = None
    domains: Domains | None = None
    timezone: Timezone | None = None


def _settings(document: SiteSettingsDocument | SiteDetails) -> dict[str, Any]:
    return {name: document[name] for name in ("name", "domains", "timezone")}


@operations.post("/v1/projects/{project}/sites", status=201, problems=[NameTaken, Conflict])
async def create_site(
    at: Annotated[At[Project], at(find_project, "project", "analytics:write", Right.DEPLOY)],
    body: Annotated[CreateSite, json_body(CreateSite)],
) -> SiteSettingsDocument:
    """Create a site.

    The edges accept its events within seconds, from its domains only.
    """
    found = await manage_sites.add_site(
        at.session, at.found, body.name, body.domains, body.timezone, at.actor, at.now
    )
    _publish_after_commit(at, found.site)
    return describe_site_settings(found)


@operations.get("/v1/analytics/sites/{site}", etag=_settings)
async def read_site(at: _Read) -> SiteDetails:
    """Read a site.

    Its settings and the figures of its received events. 429 if too many reports of the account wait.
    """
    await at.end_transaction()
    site_id, store = at.found.site.id, at.column_store

    async def read() -> Received:
        last = await last_events(store, [site_id], at.now)
        return Received(last.get(site_id), await dropped_events(store, site_id, at.now - _DROPPED_SINCE))

    try:
        # Queued like a report, because it reads as many rows as a short one.
        received = await run_queued_report(at.request, at.account.id, read)
    except StorageUnavailable:
        received = None
    return describe_site_details(at.found, received)


@operations.patch("/v1/analytics/sites/{site}", etag=_settings, problems=[NameTaken])
async def update_site(
    at: _Change, body: Annotated[UpdateSite, json_body(UpdateSite)]
) -> SiteSettingsDocument:
    """Change settings of a site.

    New domains take effect at every edge within 5 seconds. A new time zone also changes when past days begin and end.
    """
    await lock_site(at.session, at.found.site)
    at.check_if_match(_settings(describe_site_settings(at.found)))
    changes = SiteChanges(**msgspec.structs.asdict(body))
    await manage_sites.update_site(at.session, at.found, changes, at.actor, at.now)
    if body.domains is not None:
        # Publish unchanged domains too: the edges may not have been informed the first time.
        _publish_after_commit(at, at.found.site)
    return describe_site_settings(at.found)


@operations.delete("/v1/analytics/sites/{site}", checks_if_match=True)
async def delete_site(at: _Change) -> RemovedSite:
    """Remove a site.

    Removes it with its goals. No edge accepts its events after 5 seconds. Its collected events can no longer be read,
    but stay stored until their retention ends.
    """
    await lock_site(at.session, at.found.site)
    at.check_if_match(_settings(describe_site_settings(at.found)))
    at.revoke_after_commit(await remove_site(at.session, at.found, at.actor, at.now))
    return describe_removed_site(at.found)


def _publish_after_commit(at: At[Any], site: Site) -> None:
    at.publish_after_commit([digest_credential(site.public_id)], [site.id])
