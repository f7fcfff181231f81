"""The edges are informed of changed keys after the commit, even by a repeated request, and even if the key changes
again."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy.exc import TimeoutError as PoolExhausted

from control_domain import published_keys
from control_domain.monitors.environment_ping_keys import live_environment_ping_keys
from control_domain.monitors.names import live_heartbeat_names
from control_domain.monitors.operations import live_monitor_keys
from control_domain.projects.operations import live_ingest_keys
from control_domain.sites.operations import live_sites
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.key_directory.interface import KeyEntry
from tests.control_api.management.conftest import Api

_CREATIONS: dict[str, dict[str, Any]] = {
    "environments/{environment}/ingest-keys": {},
    "environments/{environment}/ping-keys": {},
    "environments/{environment}/heartbeats": {"name": "cleanup", "period_seconds": 60},
    "environments/{environment}/queues": {"name": "reports"},
    "monitors/heartbeats/{heartbeat}/keys": {},
    "monitors/heartbeats/{heartbeat}/ping-keys": {},
    "monitors/queues/{queue}/keys": {},
    "projects/{project}/sites": {"domains": ["docs.example"]},
}


def _path(api: Api, creation: str) -> str:
    acme = api.platform.acme
    assert acme.heartbeat is not None and acme.queue is not None
    return "/v1/" + creation.format(
        environment=acme.environment("shop/production").public_id,
        project=acme.projects["shop"].public_id,
        heartbeat=acme.heartbeat.id,
        queue=acme.queue.id,
    )


async def _live(api: Api) -> dict[bytes, KeyEntry]:
    """Return the entries of all live keys and sites in the database."""
    now = datetime.now(UTC)
    async with api.platform.sessions() as session:
        entries: Sequence[KeyEntry] = [
            *await live_ingest_keys(session, now),
            *await live_monitor_keys(session, now),
            *await live_environment_ping_keys(session, now),
            *await live_sites(session),
            *await live_heartbeat_names(session),
        ]
    return {entry.digest: entry for entry in entries}


async def _uninformed(api: Api) -> list[KeyEntry]:
    """Return the live keys and sites whose entries at the edges are missing or out of date."""
    directory = api.platform.directory
    return [entry for digest, entry in (await _live(api)).items() if await directory.find(digest) != entry]


async def _publish_all(api: Api) -> None:
    await published_keys.publish_keys(api.platform.sessions, api.platform.directory, datetime.now(UTC))


async def _fail(*_: Any) -> None:
    raise StorageUnavailable("Redis is away.")


@pytest.mark.both_databases
@pytest.mark.parametrize("creation", _CREATIONS)
async def test_a_repeated_request_informs_the_edges(
    monitored: Api, monkeypatch: pytest.MonkeyPatch, creation: str
) -> None:
    """If the first request could not inform the edges, a repetition does, or its response has the warning too."""
    api, path = monitored, _path(monitored, creation)
    await _publish_all(api)

    async def create() -> Any:
        made = await api.call("POST", path, _CREATIONS[creation], headers={"Idempotency-Key": "one"})
        assert made.status == 201
        return made.json()

    with monkeypatch.context() as patch:
        patch.setattr(type(api.platform.directory), "publish", _fail)
        first, second = await create(), await create()
    assert "Redis is away." in first["warning"] and first == second
    assert await _uninformed(api)
    third = await create()
    assert third == {"data": first["data"]}
    assert not await _uninformed(api)


async def test_a_repeated_request_does_not_bring_a_revoked_key_back(monitored: Api) -> None:
    """A removed site does not come back either."""
    api = monitored
    for creation in ("environments/{environment}/ingest-keys", "projects/{project}/sites"):
        path, headers = _path(api, creation), {"Idempotency-Key": creation}
        made = (await api.call("POST", path, _CREATIONS[creation], headers=headers)).data
        digest = digest_credential(made.get("key") or made["tracker_id"])
        assert await api.platform.directory.find(digest) is not None
        where = f"{path}/{made['id']}" if "key" in made else f"/v1/analytics/sites/{made['id']}"
        assert (await api.call("DELETE", where)).status == 200
        assert (await api.call("POST", path, _CREATIONS[creation], headers=headers)).data == made
        assert await api.platform.directory.find(digest) is None


def _pausing(api: Api, patch: pytest.MonkeyPatch, meanwhile: Callable[[KeyEntry], Awaitable[object]]) -> None:
    """Call `meanwhile` once, after an entry was read and before it is published."""
    publish, entries = type(api.platform.directory).publish, []

    async def pause(directory: Any, entry: KeyEntry) -> None:
        entries.append(entry)
        if len(entries) == 1:
            await meanwhile(entry)
        await publish(directory, entry)

    patch.setattr(type(api.platform.directory), "publish", pause)


@pytest.mark.both_databases
@pytest.mark.parametrize("creation", [name for name in _CREATIONS if name.endswith(("keys", "sites"))])
async def test_a_key_that_is_revoked_while_it_is_published(
    monitored: Api, monkeypatch: pytest.MonkeyPatch, creation: str
) -> None:
    """No edge accepts it afterwards, although its publication arrives last."""
    api, path = monitored, _path(monitored, creation)

    async def revoke(_: KeyEntry) -> None:
        is_site = creation.endswith("/sites")
        listed = await api.read("/v1/analytics/sites" if is_site else path)
        newest = max(row["id"] for row in listed)
        where = f"/v1/analytics/sites/{newest}" if is_site else f"{path}/{newest}"
        assert (await api.call("DELETE", where)).status == 200

    before = await _live(api)
    published: list[bytes] = []

    async def note(entry: KeyEntry) -> None:
        published.append(entry.digest)
        await revoke(entry)

    _pausing(api, monkeypatch, note)
    assert (await api.call("POST", path, _CREATIONS[creation])).status == 201
    [digest] = published
    assert digest not in before and digest not in await _live(api)
    assert await api.platform.directory.find(digest) is None


@pytest.mark.both_databases
async def test_a_site_whose_domains_change_while_it_is_published(
    monitored: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The edges end with the last change."""
    api = monitored

    async def change(entry: KeyEntry) -> None:
        assert entry.site is not None
        path = f"/v1/analytics/sites/{entry.site.site_id}"
        assert (await api.call("PATCH", path, {"domains": ["two.example"]})).status == 200

    _pausing(api, monkeypatch, change)
    made = await api.call("POST", _path(api, "projects/{project}/sites"), {"domains": ["one.example"]})
    assert made.status == 201
    [entry] = [
        each for each in (await _live(api)).values() if each.site and each.site.site_id == made.data["id"]
    ]
    assert entry.site is not None and entry.site.origins == ("https://two.example",)
    assert await api.platform.directory.find(entry.digest) == entry


@pytest.mark.parametrize(
    "error", [PoolExhausted("every connection is in use"), StorageUnavailable("Redis is away.")]
)
@pytest.mark.parametrize("has_key", [True, False])
async def test_a_failure_after_the_commit_is_no_error(
    monitored: Api, monkeypatch: pytest.MonkeyPatch, error: Exception, has_key: bool
) -> None:
    """The change is committed, so the response is a success with the ETag and a warning."""
    api = monitored
    creation = "projects/{project}/sites"

    async def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(published_keys, "live_sites", fail)
    headers = {"Idempotency-Key": "one"} if has_key else {}
    made = await api.call("POST", _path(api, creation), _CREATIONS[creation], headers=headers)
    assert made.status == 201 and "could not be informed" in made.json()["warning"]
    path = f"/v1/analytics/sites/{made.data['id']}"
    changed = await api.call("PATCH", path, {"domains": ["two.example"]})
    assert changed.status == 200 and "could not be informed" in changed.json()["warning"]
    assert changed.headers["ETag"] == (await api.call("GET", path)).headers["ETag"]


async def test_requests_of_one_key_at_the_same_time(monitored: Api) -> None:
    """One request creates the key, and all responses are the same."""
    api = monitored
    path = _path(api, "environments/{environment}/ingest-keys")
    made = await asyncio.gather(
        *(api.call("POST", path, headers={"Idempotency-Key": "one"}) for _ in range(4))
    )
    assert len({each.data["key"] for each in made}) == 1
    await _publish_all(api)
    assert not await _uninformed(api)
