"""Ingest keys: `/v1/environments/{environment}/ingest-keys`."""

from typing import Annotated

from msgspec import Struct

from control_api.operations.access import At, at
from control_api.operations.bodies import json_body
from control_api.operations.pages import PageOf, PageQuery, read_pages
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import Right
from control_domain.keys import ExpiresAt, ExpiresIn, choose_expiry
from control_domain.projects import ingest_keys
from control_domain.projects.find import DeployTarget, find_environment
from control_domain.projects.ingest_keys import CreatedIngestKey, IngestKeyDocument, describe_ingest_key
from pipeline_contracts.errors import Conflict

operations = OperationRouter("Monitoring")

_Read = Annotated[At[DeployTarget], at(find_environment, "environment", "monitoring:read", Right.READ)]
_Change = Annotated[At[DeployTarget], at(find_environment, "environment", "monitoring:write", Right.DEPLOY)]


class CreateIngestKey(Struct, kw_only=True):
    """A new ingest key."""

    expires_at: ExpiresAt | None = None
    expires_in: ExpiresIn | None = None


@operations.get("/v1/environments/{environment}/ingest-keys")
async def list_ingest_keys(
    at: _Read, params: Annotated[PageQuery, query(PageQuery)]
) -> PageOf[IngestKeyDocument]:
    """List the ingest keys of an environment.

    The newest first, without their secrets. Revoked and expired keys are listed too.
    """
    environment_id = at.found.environment.public_id
    pages = read_pages(at, params, f"ingest keys of {environment_id}")
    keys, has_more = await ingest_keys.INGEST_KEYS.list_page(at.session, at.found, pages.page)
    return pages.answer(
        [describe_ingest_key(key, environment_id, at.now) for key in keys], keys[-1].id if has_more else None
    )


@operations.post("/v1/environments/{environment}/ingest-keys", status=201, problems=[Conflict], secret=True)
async def create_ingest_key(
    at: _Change, body: Annotated[CreateIngestKey, json_body(CreateIngestKey, is_optional=True)]
) -> CreatedIngestKey:
    """Create an ingest key.

    Applications send telemetry and deployment records of the environment with it. The other keys keep working. The
    response has the secret, which is not shown again.
    """
    now = at.now
    expires_at = choose_expiry(body.expires_at, body.expires_in, now)
    key, secret = await ingest_keys.INGEST_KEYS.add(at.session, at.found, expires_at, at.actor, now)
    at.publish_after_commit([key.digest])
    return {**describe_ingest_key(key, at.found.environment.public_id, now), "key": secret}


@operations.delete("/v1/environments/{environment}/ingest-keys/{key_id}")
async def revoke_ingest_key(at: _Change) -> IngestKeyDocument:
    """Revoke an ingest key.

    No edge accepts it after 5 seconds. A revoked key stays unchanged.
    """
    key = await ingest_keys.INGEST_KEYS.revoke(at.session, at.found, at.number("key_id"), at.actor, at.now)
    # Publish a revoked key again too: the edges may not have been informed the first time.
    at.revoke_after_commit([key.digest])
    return describe_ingest_key(key, at.found.environment.public_id, at.now)
