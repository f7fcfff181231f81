"""Ping keys of environments: `/v1/environments/{environment}/ping-keys`."""

from typing import Annotated

from msgspec import Struct

from control_api.operations.access import At, at
from control_api.operations.bodies import json_body
from control_api.operations.pages import PageOf, PageQuery, read_pages
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import Right
from control_domain.keys import ExpiresAt, ExpiresIn, choose_expiry
from control_domain.monitors import environment_ping_keys
from control_domain.monitors.environment_ping_keys import (
    CreatedEnvironmentPingKey,
    EnvironmentPingKeyDocument,
    describe_environment_ping_key,
)
from control_domain.projects.find import DeployTarget, find_environment
from pipeline_contracts.errors import Conflict

operations = OperationRouter("Monitoring")

_Read = Annotated[At[DeployTarget], at(find_environment, "environment", "monitoring:read", Right.READ)]
_Change = Annotated[At[DeployTarget], at(find_environment, "environment", "monitoring:write", Right.DEPLOY)]


class CreateEnvironmentPingKey(Struct, kw_only=True):
    """A new ping key of an environment."""

    expires_at: ExpiresAt | None = None
    expires_in: ExpiresIn | None = None


@operations.get("/v1/environments/{environment}/ping-keys")
async def list_environment_ping_keys(
    at: _Read, params: Annotated[PageQuery, query(PageQuery)]
) -> PageOf[EnvironmentPingKeyDocument]:
    """List the ping keys of an environment.

    The newest first, without their secrets. Revoked and expired keys are listed too.
    """
    environment_id = at.found.environment.public_id
    pages = read_pages(at, params, f"ping keys of {environment_id}")
    keys, has_more = await environment_ping_keys.PING_KEYS.list_page(at.session, at.found, pages.page)
    return pages.answer(
        [describe_environment_ping_key(key, environment_id, at.now) for key in keys],
        keys[-1].id if has_more else None,
    )


@operations.post("/v1/environments/{environment}/ping-keys", status=201, problems=[Conflict], secret=True)
async def create_environment_ping_key(
    at: _Change,
    body: Annotated[CreateEnvironmentPingKey, json_body(CreateEnvironmentPingKey, is_optional=True)],
) -> CreatedEnvironmentPingKey:
    """Create a ping key of an environment.

    Jobs ping all heartbeats of the environment with it, each by its name: `/ping/<key>/<name>`. With `?create=1`, the
    first ping of a name creates its heartbeat. The other keys keep working. The answer has the secret, which is not
    shown again.
    """
    now = at.now
    expires_at = choose_expiry(body.expires_at, body.expires_in, now)
    key, secret = await environment_ping_keys.PING_KEYS.add(at.session, at.found, expires_at, at.actor, now)
    at.publish_after_commit([key.digest])
    document = describe_environment_ping_key(key, at.found.environment.public_id, now)
    return {**document, "key": secret, "url": f"/ping/{secret}/"}


@operations.delete("/v1/environments/{environment}/ping-keys/{key_id}")
async def revoke_environment_ping_key(at: _Change) -> EnvironmentPingKeyDocument:
    """Revoke a ping key of an environment.

    No edge accepts it after 5 seconds. A revoked key stays as it is.
    """
    key = await environment_ping_keys.PING_KEYS.revoke(
        at.session, at.found, at.number("key_id"), at.actor, at.now
    )
    # Again for a revoked key: the edges may not have been informed the first time.
    at.revoke_after_commit([key.digest])
    return describe_environment_ping_key(key, at.found.environment.public_id, at.now)
