"""Ping keys of environments, and the logs of their heartbeats."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from control_domain.monitors import environment_ping_keys
from control_domain.tables.monitors import HeartbeatLogEntry
from control_workers.full_accounts import republish_full_accounts_periodically
from pipeline_contracts.credentials import CredentialKind, digest_credential, is_well_formed
from pipeline_contracts.times import format_time, to_epoch_ms
from tests.control_api.management.conftest import Api
from tests.control_api.management.test_heartbeats import HEARTBEATS, create


def keys_of(api: Api, name: str = "shop/staging") -> str:
    return f"/v1/environments/{api.platform.acme.environment(name).public_id}/ping-keys"


async def test_create_list_revoke(api: Api) -> None:
    path, staging = keys_of(api), api.platform.acme.environment("shop/staging")
    expires_at = datetime.now(UTC).replace(microsecond=0) + timedelta(days=90)
    made = [
        (await api.call("POST", path, body, by="deployer")).data
        for body in (None, {"expires_at": expires_at.isoformat()}, {})
    ]
    secrets = [key.pop("key") for key in made]
    assert all(is_well_formed(secret, CredentialKind.ENVIRONMENT_PING_KEY) for secret in secrets)
    assert [key.pop("url") for key in made] == [f"/ping/{secret}/" for secret in secrets]
    assert made[1] == {
        "id": made[1]["id"],
        "environment_id": staging.public_id,
        "state": "live",
        "created_at": made[1]["created_at"],
        "expires_at": format_time(expires_at),
        "revoked_at": None,
    }
    assert await api.read_all(path) == made[::-1]
    entry = await api.platform.directory.find(digest_credential(secrets[1]))
    assert entry is not None
    assert (entry.kind, entry.environment_id, entry.expires_ms, entry.may_create, entry.monitor) == (
        CredentialKind.ENVIRONMENT_PING_KEY,
        staging.public_id,
        to_epoch_ms(expires_at),
        True,
        None,
    )
    revoked = await api.call("DELETE", f"{path}/{made[0]['id']}", by="deployer")
    assert revoked.data == {**made[0], "state": "revoked", "revoked_at": revoked.data["revoked_at"]}
    assert await api.platform.directory.find(digest_credential(secrets[0])) is None
    before = await api.platform.contents()
    assert (await api.call("DELETE", f"{path}/{made[0]['id']}")).data == revoked.data
    assert await api.platform.contents() == before
    assert await api.audit(4) == [
        ("environment-ping-key.revoke", f"environment-ping-key {made[0]['id']}"),
        *[("environment-ping-key.create", f"environment-ping-key {key['id']}") for key in made[::-1]],
    ]
    assert not any(secret in str(before) for secret in secrets)


async def test_keys_of_other_environments(api: Api) -> None:
    own = (await api.call("POST", keys_of(api, "shop/production"))).data
    others = api.platform.other
    environment = others.environment("shop/production").public_id
    path = f"/v1/environments/{environment}/ping-keys"
    foreign = await api.platform.call("POST", path, {}, token=others.token())
    for number in (own["id"], foreign.data["id"], "x", 0):
        await api.expect((404, "not-found"), "DELETE", f"{keys_of(api)}/{number}")
    await api.expect((404, "not-found"), "GET", path)
    await api.expect((404, "not-found"), "POST", path)


async def test_refused_keys(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    path = keys_of(api)
    past = format_time(datetime.now(UTC) - timedelta(seconds=1))
    assert (await api.expect((422, "validation-failed"), "POST", path, {"expires_at": past})).fields == [
        "expires_at"
    ]
    few = replace(environment_ping_keys.PING_KEYS, max_live=1)
    monkeypatch.setattr(environment_ping_keys, "PING_KEYS", few)
    made = await api.call("POST", path)
    await api.expect((409, "conflict"), "POST", path)
    await api.call("DELETE", f"{path}/{made.data['id']}")
    assert (await api.call("POST", path)).status == 201
    await api.expect((403, "deploy-not-allowed"), "POST", path, by="viewer")


@pytest.mark.both_databases
async def test_pings_create_heartbeats_only_below_the_limits(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limits of the environment and of the account apply. The change that reaches or leaves a limit informs the
    edges."""
    secret = (await api.call("POST", keys_of(api))).data["key"]

    async def may_create() -> bool | None:
        entry = await api.platform.directory.find(digest_credential(secret))
        return None if entry is None else entry.may_create

    for limit, most in (("MAX_CREATED_IN", 1), ("MAX_MONITORS", 1)):
        assert await may_create() is True
        with monkeypatch.context() as patched:
            patched.setattr(environment_ping_keys, limit, most)
            made = await create(api, name=limit)
            assert await may_create() is False
            await api.call("DELETE", f"{HEARTBEATS}/{made['id']}")
            assert await may_create() is True


@pytest.mark.both_databases
async def test_a_full_account_creates_no_heartbeats_in_any_environment(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other environments learn it too: when a heartbeat is created, and when it goes with its environment."""
    secret = (await api.call("POST", keys_of(api))).data["key"]
    project = f"/v1/projects/{api.platform.acme.projects['shop'].public_id}/environments"
    other = (await api.call("POST", project, {"name": "QA", "type": "staging"})).data["id"]
    monkeypatch.setattr(environment_ping_keys, "MAX_MONITORS", 1)
    stop = asyncio.Event()
    loop = republish_full_accounts_periodically(
        api.platform.sessions, api.platform.directory, stop, every=0.01
    )

    async def wait_for(may_create: bool) -> None:
        while True:
            entry = await api.platform.directory.find(digest_credential(secret))
            assert entry is not None
            if entry.may_create is may_create:
                return
            await asyncio.sleep(0.01)

    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        tasks.create_task(loop)
        await wait_for(True)
        made = await api.call(
            "POST", f"/v1/environments/{other}/heartbeats", {"name": "backup", "period_seconds": 60}
        )
        assert made.status == 201, made.body
        await wait_for(False)
        assert (await api.call("DELETE", f"/v1/environments/{other}")).status == 200
        await wait_for(True)
        stop.set()


@pytest.mark.both_databases
async def test_the_log_of_a_heartbeat(api: Api) -> None:
    made = await create(api)
    first_ms = to_epoch_ms(datetime(2026, 3, 4, tzinfo=UTC))
    async with api.platform.sessions() as session, session.begin():
        for number in range(3):
            session.add(
                HeartbeatLogEntry(
                    heartbeat_id=made["id"],
                    entry_id=f"entry-{number}",
                    run_id="r1" if number else None,
                    received_ms=first_ms + number,
                    text="<b>half</b>" if number else None,
                )
            )
    path = f"{HEARTBEATS}/{made['id']}/log"
    assert await api.read(path, by="viewer") == [
        {
            "id": f"entry-{number}",
            "run_id": "r1" if number else None,
            "logged_at": f"2026-03-04T00:00:00.00{number}Z",
            "text": "<b>half</b>" if number else None,
        }
        for number in (2, 1, 0)
    ]
    # The log is removed with the heartbeat.
    await api.call("DELETE", f"{HEARTBEATS}/{made['id']}")
    await api.expect((404, "not-found"), "GET", path)
