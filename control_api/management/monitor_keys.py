"""Keys of heartbeats and queues: `…/keys` and `…/ping-keys` below `/v1/monitors`."""

from typing import Annotated

from msgspec import Struct

from control_api.operations.access import At, at
from control_api.operations.bodies import json_body
from control_api.operations.pages import PageOf, PageQuery, read_pages
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import Right
from control_domain.keys import ExpiresAt, ExpiresIn, choose_expiry
from control_domain.monitors import monitor_keys, ping_keys
from control_domain.monitors.describe_keys import (
    CreatedMonitorKey,
    MonitorKeyDocument,
    PingKeyDocument,
    describe_monitor_key,
    describe_new_monitor_key,
    describe_ping_key,
)
from control_domain.monitors.find import FoundHeartbeat, FoundQueue, find_heartbeat, find_queue
from pipeline_contracts.errors import Conflict

operations = OperationRouter("Monitoring")

_ReadHeartbeat = Annotated[At[FoundHeartbeat], at(find_heartbeat, "heartbeat", "monitoring:read", Right.READ)]
_ChangeHeartbeat = Annotated[
    At[FoundHeartbeat], at(find_heartbeat, "heartbeat", "monitoring:write", Right.DEPLOY)
]
_ReadQueue = Annotated[At[FoundQueue], at(find_queue, "queue", "monitoring:read", Right.READ)]
_ChangeQueue = Annotated[At[FoundQueue], at(find_queue, "queue", "monitoring:write", Right.DEPLOY)]


class CreateMonitorKey(Struct, kw_only=True):
    """A new key of a heartbeat or a queue."""

    expires_at: ExpiresAt | None = None
    expires_in: ExpiresIn | None = None


_Body = Annotated[CreateMonitorKey, json_body(CreateMonitorKey, is_optional=True)]
_Page = Annotated[PageQuery, query(PageQuery)]


@operations.get("/v1/monitors/heartbeats/{heartbeat}/keys")
async def list_heartbeat_keys(at: _ReadHeartbeat, params: _Page) -> PageOf[MonitorKeyDocument]:
    """List the monitor keys of a heartbeat.

    The newest first, without their secrets. Revoked and expired keys are listed too.
    """
    return await _list_keys(at, params, "heartbeat")


@operations.post("/v1/monitors/heartbeats/{heartbeat}/keys", status=201, problems=[Conflict], secret=True)
async def create_heartbeat_key(at: _ChangeHeartbeat, body: _Body) -> CreatedMonitorKey:
    """Create a monitor key of a heartbeat.

    The other keys keep working. The answer has the secret, which is not shown again.
    """
    return await _create_key(at, body)


@operations.delete("/v1/monitors/heartbeats/{heartbeat}/keys/{key_id}")
async def revoke_heartbeat_key(at: _ChangeHeartbeat) -> MonitorKeyDocument:
    """Revoke a monitor key of a heartbeat.

    No edge accepts it after 5 seconds. A revoked key stays unchanged.
    """
    return await _revoke_key(at)


@operations.get("/v1/monitors/queues/{queue}/keys")
async def list_queue_keys(at: _ReadQueue, params: _Page) -> PageOf[MonitorKeyDocument]:
    """List the monitor keys of a queue.

    The newest first, without their secrets. Revoked and expired keys are listed too.
    """
    return await _list_keys(at, params, "queue")


@operations.post("/v1/monitors/queues/{queue}/keys", status=201, problems=[Conflict], secret=True)
async def create_queue_key(at: _ChangeQueue, body: _Body) -> CreatedMonitorKey:
    """Create a monitor key of a queue.

    The other keys keep working. The answer has the secret, which is not shown again.
    """
    return await _create_key(at, body)


@operations.delete("/v1/monitors/queues/{queue}/keys/{key_id}")
async def revoke_queue_key(at: _ChangeQueue) -> MonitorKeyDocument:
    """Revoke a monitor key of a queue.

    No edge accepts it after 5 seconds. A revoked key stays unchanged.
    """
    return await _revoke_key(at)


@operations.get("/v1/monitors/heartbeats/{heartbeat}/ping-keys")
async def list_ping_keys(at: _ChangeHeartbeat, params: _Page) -> PageOf[PingKeyDocument]:
    """List the ping keys of a heartbeat.

    The newest first, with the addresses that a job calls. Anybody who knows an address can report for the heartbeat,
    so listing them needs the scope and the role that changes need. A heartbeat from a configuration document has no
    ping key until one is created.
    """
    pages = read_pages(at, params, f"ping keys of heartbeat {at.found.monitor.id}")
    keys, has_more = await ping_keys.list_ping_keys(at.session, at.found, at.sealing_keys, pages.page, at.now)
    return pages.answer(
        [describe_ping_key(key, at.now) for key in keys], keys[-1].row.id if has_more else None
    )


@operations.post(
    "/v1/monitors/heartbeats/{heartbeat}/ping-keys", status=201, problems=[Conflict], secret=True
)
async def create_ping_key(at: _ChangeHeartbeat) -> PingKeyDocument:
    """Create a ping key of a heartbeat.

    The other keys keep working.
    """
    key = await ping_keys.add_ping_key(at.session, at.found, at.sealing_keys, at.actor, at.now)
    at.publish_after_commit([key.row.digest])
    return describe_ping_key(key, at.now)


@operations.delete("/v1/monitors/heartbeats/{heartbeat}/ping-keys/{key_id}")
async def revoke_ping_key(at: _ChangeHeartbeat) -> PingKeyDocument:
    """Revoke a ping key of a heartbeat.

    No edge accepts it after 5 seconds. A revoked key stays unchanged.
    """
    key = await ping_keys.revoke_ping_key(at.session, at.found, at.number("key_id"), at.actor, at.now)
    at.revoke_after_commit([key.digest])
    return describe_ping_key(ping_keys.PingKey(key, None), at.now)


async def _list_keys(
    at: At[FoundHeartbeat] | At[FoundQueue], params: PageQuery, kind: str
) -> PageOf[MonitorKeyDocument]:
    pages = read_pages(at, params, f"keys of {kind} {at.found.monitor.id}")
    keys, has_more = await monitor_keys.list_monitor_keys(at.session, at.found, pages.page)
    return pages.answer(
        [describe_monitor_key(key, at.now) for key in keys], keys[-1].id if has_more else None
    )


async def _create_key(at: At[FoundHeartbeat] | At[FoundQueue], body: CreateMonitorKey) -> CreatedMonitorKey:
    now = at.now
    expires_at = choose_expiry(body.expires_at, body.expires_in, now)
    key, secret = await monitor_keys.add_monitor_key(at.session, at.found, expires_at, at.actor, now)
    at.publish_after_commit([key.digest])
    return describe_new_monitor_key(key, secret, now)


async def _revoke_key(at: At[FoundHeartbeat] | At[FoundQueue]) -> MonitorKeyDocument:
    key = await monitor_keys.revoke_monitor_key(at.session, at.found, at.number("key_id"), at.actor, at.now)
    # Publish a revoked key again too: the edges may not have been informed the first time.
    at.revoke_after_commit([key.digest])
    return describe_monitor_key(key, at.now)
