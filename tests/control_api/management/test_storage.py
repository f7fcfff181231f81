"""Stored data of the installation, and its retention."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from control_api.management import storage
from control_workers.apply_retention import apply_set_retention
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.change_retention import read_retention
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from tests.control_api.management.conftest import Api

STORAGE = "/v1/storage"
RETENTION = "/v1/storage/retention"
KIND = "dropped_pageviews"


async def test_a_retention_is_shown_set_recorded_and_applied(api: Api, column_store: ChdbColumnStore) -> None:
    now = datetime.now(UTC)
    old = now - timedelta(days=75)
    await column_store.command(
        f"INSERT INTO pharos.{KIND} (site_id, received_at) VALUES (4, '{old:%Y-%m-%d %H:%M:%S}')"
    )

    async def shown(by: str) -> tuple[int, int]:
        document = await api.read(STORAGE, by=by)
        assert document["database_bytes"] > 4096
        assert document["disks"][0]["total_bytes"] >= document["disks"][0]["free_bytes"] > 0
        (found,) = [kind for kind in document["kinds"] if kind["kind"] == KIND]
        assert found["rows"] == sum(part["rows"] for part in found["parts"])
        return found["rows"], found["retention_days"]

    rows, days = await shown("admin")
    assert (rows >= 1, days) == (True, 90)
    for days, problem in ((0, (422, "validation-failed")), (3651, (422, "validation-failed"))):
        await api.expect(problem, "PUT", RETENTION, {"kind": KIND, "days": days})
    try:
        changed = await api.call("PUT", RETENTION, {"kind": KIND, "days": 30})
        assert changed.status == 200, changed.body
        # Older data is deleted before the response.
        assert (await shown("owner"))[1] == 30
        assert (await shown("owner"))[0] < rows
        assert (await read_retention(column_store))[KIND] == 30
        assert await apply_set_retention(api.platform.sessions, column_store, now) == []
        (entry,) = await api.read("/v1/audit?action=retention.set")
        assert (entry["subject"], entry["details"]) == (f"data {KIND}", {"days": {"from": 90, "to": 30}})
    finally:
        await api.call("PUT", RETENTION, {"kind": KIND, "days": 90})
        await apply_set_retention(api.platform.sessions, column_store, now)
    assert (await read_retention(column_store))[KIND] == 90


async def test_a_change_is_recorded_before_anything_is_deleted(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def shorten(*_given: Any) -> None:
        raise StorageUnavailable("the server went away after the first partition")

    monkeypatch.setattr(storage, "shorten_retention", shorten)
    # The platform of tests fails on any other 5xx.
    with pytest.raises(AssertionError, match=r"status=503.*may be deleted"):
        await api.call("PUT", RETENTION, {"kind": KIND, "days": 30})
    (entry,) = await api.read("/v1/audit?action=retention.set")
    assert entry["details"] == {"days": {"from": 90, "to": 30}}
    # The page shows the actual retention, so that a person can set it again.
    (found,) = [kind for kind in (await api.read(STORAGE))["kinds"] if kind["kind"] == KIND]
    assert found["retention_days"] == 90


async def test_another_account_and_members_see_nothing_of_the_installation(shared_api: Api) -> None:
    await shared_api.expect((403, "not-allowed"), "GET", STORAGE, by="maintainer")
    token = shared_api.platform.other.token("owner")
    answer = await shared_api.platform.call("GET", STORAGE, token=token)
    assert answer.problem == (403, "not-allowed")


async def test_backups_are_for_admins_of_the_first_account(shared_api: Api) -> None:
    """Without a data folder the engines are servers with separate backups."""
    document = await shared_api.read("/v1/storage/backups", by="admin")
    assert (document["is_supported"], document["folder"], document["backups"]) == (False, None, [])
    await shared_api.expect((403, "not-allowed"), "GET", "/v1/storage/backups", by="maintainer")
    token = shared_api.platform.other.token("owner")
    answer = await shared_api.platform.call("GET", "/v1/storage/backups", token=token)
    assert answer.problem == (403, "not-allowed")
