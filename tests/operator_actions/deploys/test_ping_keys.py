"""Ping keys of heartbeats: made with one, shown again, revoked, and nothing of them in the clear in the database."""

import pytest
from sqlalchemy import select

from control_domain.monitors.operations import live_monitor_keys
from control_domain.sealing import SealingKeys
from control_domain.tables.monitors import MonitorKey
from pipeline_contracts.credentials import CredentialKind, digest_credential, is_well_formed
from tests.support.managed_project import NOW, ManagedProject

pytestmark = pytest.mark.both_databases


async def test_a_ping_key_is_shown_with_its_heartbeat(managed: ManagedProject) -> None:
    made = await managed.act("heartbeats/create", name="backup", period_seconds=3600)
    key, number = made["ping_key"], made["id"]
    assert is_well_formed(key, CredentialKind.PING_KEY)
    shown = await managed.act("heartbeats/show", id=number)
    assert shown["ping_keys"] == [{"id": made["ping_key_id"], "state": "live", "key": key}]
    # The monitor key is another one, and is not shown again.
    assert [one["id"] for one in shown["keys"]] == [made["key_id"]]
    entry = await managed.engines.directory.find(digest_credential(key))
    assert entry is not None
    assert (entry.kind, entry.monitor) == (CredentialKind.PING_KEY, f"heartbeat/{number}")
    async with managed.engines.sessions() as session:
        assert entry in await live_monitor_keys(session, NOW)
        rows = [tuple(row) for row in await session.execute(select(MonitorKey.__table__))]
    assert key not in str(rows) and made["key"] not in str(rows)

    other = await managed.act("ping-keys/create", id=number)
    await managed.act("monitor-keys/revoke", kind="heartbeat", id=number, key_id=made["ping_key_id"])
    assert await managed.engines.directory.find(digest_credential(key)) is None
    assert (await managed.act("heartbeats/show", id=number))["ping_keys"] == [
        {"id": made["ping_key_id"], "state": "revoked", "key": None},
        {"id": other["ping_key_id"], "state": "live", "key": other["ping_key"]},
    ]
    await managed.act("heartbeats/remove", id=number)
    assert await managed.engines.directory.find(digest_credential(other["ping_key"])) is None


async def test_a_heartbeat_without_one_gets_it_when_it_is_shown(managed: ManagedProject) -> None:
    """As those of configurations and of earlier versions. Without the keys of variables there is none to show."""
    without = managed.on(managed.engines.sessions)
    without.engines = type(managed.engines)(managed.engines.sessions, managed.engines.directory)
    made = await without.act("heartbeats/create", name="backup", period_seconds=3600)
    assert "ping_key" not in made
    assert (await without.act("heartbeats/show", id=made["id"]))["ping_keys"] == []
    assert "PHAROS_VARIABLES_KEY" in await without.expect_refusal("ping-keys/create", id=made["id"])
    (first,) = (await managed.act("heartbeats/show", id=made["id"]))["ping_keys"]
    assert (await managed.act("heartbeats/show", id=made["id"]))["ping_keys"] == [first]
    assert await managed.engines.directory.find(digest_credential(first["key"])) is not None
    # Under a secret that is gone it cannot be shown; it works all the same.
    without.engines = type(managed.engines)(
        managed.engines.sessions,
        managed.engines.directory,
        variable_keys=SealingKeys([b"another" * 4 + b"keys"]),
    )
    assert (await without.act("heartbeats/show", id=made["id"]))["ping_keys"] == [{**first, "key": None}]
    assert "There is no heartbeat 99" in await managed.expect_refusal("ping-keys/create", id=99)


async def test_ping_keys_are_sealed_again_when_the_key_is_rotated(managed: ManagedProject) -> None:
    def use_keys(*keys: bytes) -> None:
        engines = managed.engines
        managed.engines = type(engines)(engines.sessions, engines.directory, variable_keys=SealingKeys(keys))

    old, new = b"o" * 32, b"n" * 32
    use_keys(old)
    made = await managed.act("heartbeats/create", name="backup", period_seconds=3600)
    other = await managed.act("ping-keys/create", id=made["id"])
    await managed.act("monitor-keys/revoke", kind="heartbeat", id=made["id"], key_id=other["ping_key_id"])
    use_keys(new)
    # The secret that sealed it is gone: said, instead of "nothing is left".
    assert "heartbeat" in await managed.expect_refusal("variables/rotate-key")
    use_keys(new, old)
    told = await managed.act("variables/rotate-key")
    assert (told["resealed"], told["left"]) == (1, 0)
    # The old key is needed no more.
    use_keys(new)
    (shown, revoked) = (await managed.act("heartbeats/show", id=made["id"]))["ping_keys"]
    assert shown == {"id": made["ping_key_id"], "state": "live", "key": made["ping_key"]}
    assert revoked["state"] == "revoked"
    assert (await managed.act("variables/rotate-key"))["resealed"] == 0
