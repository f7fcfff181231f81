"""Ingest keys of environments."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from control_domain.projects import ingest_keys
from pipeline_contracts.credentials import CredentialKind, digest_credential, is_well_formed
from pipeline_contracts.times import format_time, to_epoch_ms
from tests.control_api.management.conftest import Api


def keys_of(api: Api, name: str = "shop/staging") -> str:
    return f"/v1/environments/{api.platform.acme.environment(name).public_id}/ingest-keys"


async def test_create_list_revoke(api: Api) -> None:
    path, staging = keys_of(api), api.platform.acme.environment("shop/staging")
    expires_at = datetime.now(UTC).replace(microsecond=0) + timedelta(days=90)
    made = [
        (await api.call("POST", path, body, by="deployer")).data
        for body in (None, {"expires_at": expires_at.isoformat()}, {})
    ]
    secrets = [key.pop("key") for key in made]
    assert all(is_well_formed(secret, CredentialKind.INGEST_KEY) for secret in secrets)
    assert made[1] == {
        "id": made[1]["id"],
        "environment_id": staging.public_id,
        "name": None,
        "state": "live",
        "created_at": made[1]["created_at"],
        "expires_at": format_time(expires_at),
        "revoked_at": None,
    }
    assert await api.read_all(path) == made[::-1]
    entry = await api.platform.directory.find(digest_credential(secrets[1]))
    assert entry is not None
    assert (entry.kind, entry.environment_id, entry.expires_ms) == (
        CredentialKind.INGEST_KEY,
        staging.public_id,
        to_epoch_ms(expires_at),
    )
    # The control plane accepts the key immediately.
    record = {"Authorization": f"Bearer {secrets[0]}"}
    body = {"deployment_id": "1", "version": "1", "service": "web"}
    assert (await api.platform.call("POST", "/v1/deployments", body, headers=record)).problem[0] != 401

    revoked = await api.call("DELETE", f"{path}/{made[0]['id']}", by="deployer")
    assert revoked.data == {**made[0], "state": "revoked", "revoked_at": revoked.data["revoked_at"]}
    assert await api.platform.directory.find(digest_credential(secrets[0])) is None
    assert (await api.platform.call("POST", "/v1/deployments", body, headers=record)).problem[0] == 401
    before = await api.platform.contents()
    assert (await api.call("DELETE", f"{path}/{made[0]['id']}")).data == revoked.data
    assert await api.platform.contents() == before
    assert await api.audit(4) == [
        ("ingest-key.revoke", f"ingest-key {made[0]['id']}"),
        *[("ingest-key.create", f"ingest-key {key['id']}") for key in made[::-1]],
    ]
    assert not any(secret in str(before) for secret in secrets)


async def test_keys_of_other_environments(api: Api) -> None:
    (own,) = await api.read(keys_of(api, "shop/production"))
    others = api.platform.other
    environment = others.environment("shop/production").public_id
    foreign = await api.platform.call(
        "GET", f"/v1/environments/{environment}/ingest-keys", token=others.token()
    )
    for number in (own["id"], foreign.data[0]["id"], "x", 0):
        await api.expect((404, "not-found"), "DELETE", f"{keys_of(api)}/{number}")


async def test_refused_keys(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    path = keys_of(api)
    past = format_time(datetime.now(UTC) - timedelta(seconds=1))
    refused = await api.expect((422, "validation-failed"), "POST", path, {"expires_at": past})
    assert refused.json()["errors"] == [
        {"field": "expires_at", "message": "must be in the future, at most 3650 days from now"}
    ]
    monkeypatch.setattr(ingest_keys, "INGEST_KEYS", replace(ingest_keys.INGEST_KEYS, max_live=1))
    made = await api.call("POST", path)
    await api.expect((409, "conflict"), "POST", path)
    await api.call("DELETE", f"{path}/{made.data['id']}")
    assert (await api.call("POST", path)).status == 201


async def test_a_key_expires_in_seconds_from_now(api: Api) -> None:
    made = (await api.call("POST", keys_of(api), {"expires_in": 3600})).data
    created, expires = [datetime.fromisoformat(made[name]) for name in ("created_at", "expires_at")]
    assert expires - created == timedelta(hours=1)
    both = {"expires_in": 3600, "expires_at": made["expires_at"]}
    for body in (both, {"expires_in": 59}, {"expires_in": 3651 * 86_400}):
        refused = await api.expect((422, "validation-failed"), "POST", keys_of(api), body)
        assert refused.fields == ["expires_in"]


async def test_a_repeated_creation(api: Api) -> None:
    headers = {"Idempotency-Key": "one"}
    first = await api.call("POST", keys_of(api), headers=headers)
    again = await api.call("POST", keys_of(api), headers=headers)
    assert first.data == again.data
    assert len(await api.read(keys_of(api))) == 1
    assert first.data["key"] not in str(await api.platform.contents())
