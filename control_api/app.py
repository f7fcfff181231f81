"""Builds the FastAPI application of the control plane."""

import hmac
from collections.abc import Callable
from types import MappingProxyType

from fastapi import FastAPI

from analytics_queries.visit_analysis.recent_rollups import RecentRollups
from control_api.changes.change_streams import ChangeStreams
from control_api.http.error_responses import EXCEPTION_HANDLERS
from control_api.http.middleware import (
    BodyChunkMiddleware,
    HeadRequestMiddleware,
    RequestIdMiddleware,
    RequestLimitMiddleware,
)
from control_api.http.session_cookie import SetCookieMiddleware, make_cookie_suffix
from control_api.limits.fair_queue import FairQueue, QueueLimits
from control_api.limits.report_queue import DEFAULT_REPORT_LIMITS
from control_api.limits.request_limits import RequestLimiter
from control_api.limits.shared_report_queue import SharedReportQueue
from control_api.limits.webhook_bodies import WebhookBodies
from control_api.live_logs.log_streams import LogStreams
from control_api.management.all_operations import ROUTERS
from control_api.management.storage import StorageAccess
from control_api.oidc.provider import OidcProvider
from control_api.routes.accounts import router as accounts
from control_api.routes.configurations import router as configuration
from control_api.routes.dashboard import router as dashboard
from control_api.routes.deployments import router as deployments
from control_api.routes.documentation import router as documentation
from control_api.routes.environments import router as environments
from control_api.routes.incident_pages import router as incident_pages
from control_api.routes.oidc import router as oidc_router
from control_api.routes.projects import router as projects
from control_api.routes.receipts import router as receipts
from control_api.routes.recorded_deployments import router as recorded_deployments
from control_api.routes.reference import router as reference
from control_api.routes.schemas import router as schemas
from control_api.routes.sites import router as sites
from control_api.routes.webhooks import router as webhooks
from control_api.routes.workflows import router as workflows
from control_domain.database.engine import Sessions
from control_domain.notifications.channels import UnavailableTypes
from control_domain.notifications.signed_links import IncidentLinks
from control_domain.process_output import ProcessOutput
from control_domain.repositories.local_folders import NO_FOLDERS, LocalFolders
from control_domain.sealing import SealingKeys
from control_domain.sign_in.password_hashes import PasswordHasher
from pipeline_contracts.client_address import ClientAddresses
from storage_backends.column_store.interface import ColumnStore
from storage_backends.key_directory.interface import KeyDirectory

_ROUTERS = (
    oidc_router,
    accounts,
    receipts,
    recorded_deployments,
    projects,
    deployments,
    environments,
    workflows,
    configuration,
    webhooks,
    sites,
    schemas,
    reference,
    dashboard,
    documentation,
    incident_pages,
)


def build_control_app(
    sessions: Sessions,
    column_store: ColumnStore,
    receipt_key: bytes,
    variable_keys: SealingKeys,
    addresses: ClientAddresses | None = None,
    wake_configuration_runs: Callable[[], None] = lambda: None,
    *,
    directory: KeyDirectory | None = None,
    git_app_secret: str | None = None,
    report_store: ColumnStore | None = None,
    report_limits: QueueLimits = DEFAULT_REPORT_LIMITS,
    request_limiter: RequestLimiter | None = None,
    process_output: ProcessOutput | None = None,
    public_url: str | None = None,
    repository_folders: LocalFolders = NO_FOLDERS,
    unavailable_channels: UnavailableTypes = MappingProxyType({}),
    oidc: OidcProvider | None = None,
    storage_access: StorageAccess = StorageAccess(),  # noqa: B008  immutable
) -> FastAPI:
    """Return the application on resources that the caller has opened.

    `addresses` knows the trusted proxies. `wake_configuration_runs` is called when a configuration run has a step to
    apply. `directory` is updated when the keys of a preview end. Without `git_app_secret`, the webhook of the Git
    host's application responds 404. Reports read `report_store`, by default `column_store`. Without `request_limiter`,
    requests are not limited. `process_output` is the output of the deployer on this machine, if its folder is known.
    URLs of webhooks begin with `public_url` or, without it, with the address of the request. Repositories in
    `repository_folders` may be connected by path. `unavailable_channels` are types of notification channels that the
    installation cannot use, with the reasons. `storage_access` is for `/v1/storage`.
    """
    app = FastAPI(
        title="Pharos",
        version="1",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        # Behind a TLS proxy a redirect would name http, and the client would send its token without TLS.
        redirect_slashes=False,
        exception_handlers=EXCEPTION_HANDLERS,
    )
    app.state.sessions = sessions
    app.state.column_store = column_store
    app.state.receipt_key = receipt_key
    # A derived key: a cursor must not pass as a receipt.
    app.state.cursor_key = hmac.digest(receipt_key, b"cursors of lists", "sha256")
    app.state.cookie_suffix = make_cookie_suffix(receipt_key)
    app.state.variable_keys = variable_keys
    app.state.wake_configuration_runs = wake_configuration_runs
    app.state.key_directory = directory
    app.state.git_app_secret = git_app_secret
    app.state.webhook_bodies = WebhookBodies()
    app.state.client_addresses = addresses or ClientAddresses(())
    app.state.log_streams = LogStreams(sessions)
    app.state.report_store = report_store or column_store
    app.state.report_queue = FairQueue(report_limits)
    app.state.change_streams = ChangeStreams(sessions, app.state.report_store, app.state.report_queue)
    app.state.shared_report_queue = SharedReportQueue(report_limits)
    app.state.recent_rollups = RecentRollups()
    app.state.request_limiter = request_limiter
    app.state.process_output = process_output
    app.state.public_url = public_url
    app.state.repository_folders = repository_folders
    app.state.unavailable_channels = unavailable_channels
    app.state.storage_access = storage_access
    app.state.incident_links = IncidentLinks(receipt_key, public_url)
    app.state.oidc = oidc
    app.state.password_hasher = PasswordHasher()
    app.add_middleware(SetCookieMiddleware)
    if request_limiter is not None:
        # Added before the middleware of request IDs, so that refused requests get an ID too.
        app.add_middleware(
            RequestLimitMiddleware, limiter=request_limiter, addresses=app.state.client_addresses
        )
    app.add_middleware(RequestIdMiddleware)
    app.add_middleware(HeadRequestMiddleware)
    app.add_middleware(BodyChunkMiddleware)
    for router in (*_ROUTERS, *(operations.router for operations in ROUTERS)):
        # Not `include_router`: finding a route in nested routers takes ten times as long, up to 1 ms.
        app.router.routes.extend(router.routes)
    return app
