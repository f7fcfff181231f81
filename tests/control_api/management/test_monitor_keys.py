"""Monitor keys of heartbeats and queues, and ping keys."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from control_domain.monitors import monitor_keys, ping_keys
from control_domain.sealing import SealingKeys
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.times import format_time, to_epoch_ms
from storage_backends.key_directory.interface import KeyEntry
from tests.control_api.management.conftest import Api
from tests.support.deploy_platform import ALL_SCOPES, Tenant, add_monitors

KINDS = ("heartbeat", "queue")


@pytest.fixture
async def api(api: Api) -> Api:
    """Return a platform with monitors, for this test alone."""
    await add_monitors(api.platform)
    return api


def monitor(tenant: Tenant, kind: str) -> str:
    found = tenant.heartbeat if kind == "heartbeat" else tenant.queue
    assert found is not None
    return f"/v1/monitors/{kind}s/{found.id}"


async def find_key(api: Api, secret: str) -> KeyEntry | None:
    return await api.platform.directory.find(digest_credential(secret))


@pytest.mark.parametrize("kind", KINDS)
async def test_create_list_revoke(api: Api, kind: str) -> None:
    path = f"{monitor(api.platform.acme, kind)}/keys"
    expires_at = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)
    made = [
        (await api.call("POST", path, body, by="deployer")).data
        for body in (None, {}, {"expires_at": None}, {"expires_at": expires_at.isoformat()})
    ]
    secrets = [key.pop("key") for key in made]
    assert await api.read_all(path) == made[::-1]
    assert [key["expires_at"] for key in made] == [None, None, None, format_time(expires_at)]
    entry = await find_key(api, secrets[3])
    assert entry is not None
    assert entry.monitor == monitor(api.platform.acme, kind).removeprefix("/v1/monitors/").replace("s/", "/")
    assert entry.expires_ms == to_epoch_ms(expires_at)

    revoked = await api.call("DELETE", f"{path}/{made[0]['id']}", by="deployer")
    assert revoked.data == {**made[0], "state": "revoked", "revoked_at": revoked.data["revoked_at"]}
    assert await find_key(api, secrets[0]) is None
    assert await find_key(api, secrets[1]) is not None
    # A second revocation changes nothing.
    before = await api.platform.contents()
    assert (await api.call("DELETE", f"{path}/{made[0]['id']}")).data == revoked.data
    assert await api.platform.contents() == before
    assert (await api.audit(2))[0] == ("monitor-key.revoke", f"monitor-key {made[0]['id']}")


@pytest.mark.parametrize("kind", KINDS)
async def test_keys_of_others(api: Api, kind: str) -> None:
    """A key is found only at its own monitor, and a ping key is not a monitor key."""
    acme, other = api.platform.acme, api.platform.other
    path = f"{monitor(acme, kind)}/keys"
    elsewhere = KINDS[kind == "heartbeat"]
    key = (await api.call("POST", f"{monitor(acme, elsewhere)}/keys")).data["id"]
    ping_key = (await api.call("POST", f"{monitor(acme, 'heartbeat')}/ping-keys")).data["id"]
    foreign = await api.platform.call("POST", f"{monitor(other, kind)}/keys", token=other.token())
    for number in (key, ping_key, foreign.data["id"], 0, "x", 2**31):
        await api.expect((404, "not-found"), "DELETE", f"{path}/{number}")
    await api.expect((404, "not-found"), "DELETE", f"{monitor(acme, 'heartbeat')}/ping-keys/{key}")
    await api.expect((404, "not-found"), "POST", f"{monitor(other, kind)}/keys")


@pytest.mark.parametrize(
    "expires_at",
    [
        "2020-01-01T00:00:00Z",
        "9999-12-31T23:59:59-12:00",
        "0001-01-01T00:00:00+12:00",
        "2030-01-01T00:00:00",
        "soon",
        7,
        "2037-01-01T00:00:00Z",
    ],
)
async def test_invalid_expiry(shared_api: Api, expires_at: Any) -> None:
    path = f"{monitor(shared_api.platform.acme, 'queue')}/keys"
    refused = await shared_api.expect((422, "validation-failed"), "POST", path, {"expires_at": expires_at})
    assert refused.fields == ["expires_at"]


async def test_a_key_expires_in_seconds_from_now(api: Api) -> None:
    path = f"{monitor(api.platform.acme, 'heartbeat')}/keys"
    made = (await api.call("POST", path, {"expires_in": 3600})).data
    created, expires = [datetime.fromisoformat(made[name]) for name in ("created_at", "expires_at")]
    assert expires - created == timedelta(hours=1)


async def test_number_of_live_keys_of_a_monitor_is_limited(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (monitor_keys, ping_keys):
        monkeypatch.setattr(module, "MAX_LIVE_KEYS", 1)
    for kind in ("keys", "ping-keys"):
        path = f"{monitor(api.platform.acme, 'heartbeat')}/{kind}"
        first = await api.call("POST", path)
        await api.expect((409, "conflict"), "POST", path)
        await api.call("DELETE", f"{path}/{first.data['id']}")
        assert (await api.call("POST", path)).status == 201
    # Each monitor has a separate limit.
    assert (await api.call("POST", f"{monitor(api.platform.acme, 'queue')}/keys")).status == 201


async def test_ping_keys(api: Api) -> None:
    path = f"{monitor(api.platform.acme, 'heartbeat')}/ping-keys"
    assert await api.read(path, by="deployer") == []
    made = [(await api.call("POST", path, by="deployer")).data for _ in range(3)]
    assert await api.read_all(path) == made[::-1]
    entry = await find_key(api, made[0]["key"])
    assert entry is not None
    revoked = await api.call("DELETE", f"{path}/{made[0]['id']}", by="deployer")
    assert (revoked.data["state"], revoked.data["key"], revoked.data["urls"]) == ("revoked", None, None)
    assert await find_key(api, made[0]["key"]) is None
    assert (await api.call("DELETE", f"{path}/{made[0]['id']}")).data == revoked.data
    assert await api.read(path) == [made[2], made[1], revoked.data]
    assert [action for action, _ in await api.audit(4)] == [
        "ping-key.revoke",
        "ping-key.create",
        "ping-key.create",
        "ping-key.create",
    ]
    # Ping keys are secrets: people who may only read do not see them.
    refused = await api.call("GET", path, by="viewer")
    assert refused.problem == (403, "deploy-not-allowed")
    refused = await api.call("GET", path, scopes=ALL_SCOPES - {"monitoring:write"})
    assert refused.problem == (403, "missing-scope")
    assert made[1]["key"] not in str(await api.platform.contents())


async def test_ping_keys_sealed_under_a_lost_secret(api: Api) -> None:
    """The key itself keeps working."""
    path = f"{monitor(api.platform.acme, 'heartbeat')}/ping-keys"
    made = (await api.call("POST", path)).data
    api.platform.app.state.variable_keys = SealingKeys.read("another key for variables of the test suite")
    assert await api.read(path) == [{**made, "key": None, "urls": None}]


async def test_edges_that_cannot_be_informed(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key is created or revoked nevertheless, and the response has a warning."""

    async def fail(*_: Any) -> None:
        raise StorageUnavailable("Redis is away.")

    path = f"{monitor(api.platform.acme, 'heartbeat')}/keys"
    with monkeypatch.context() as patch:
        patch.setattr(type(api.platform.directory), "publish", fail)
        patch.setattr(type(api.platform.directory), "revoke", fail)
        made = await api.call("POST", path)
        assert made.status == 201
        assert "Redis is away." in made.json()["warning"]
        revoked = await api.call("DELETE", f"{path}/{made.data['id']}")
        assert (revoked.status, revoked.data["state"]) == (200, "revoked")
        assert "Redis is away." in revoked.json()["warning"]
    assert "warning" not in (await api.call("DELETE", f"{path}/{made.data['id']}")).json()
