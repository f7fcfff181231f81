"""The edges find a heartbeat by its current name."""

import pytest

from ingest_edge.heartbeat_names import find_heartbeat_by_name
from tests.control_api.management.conftest import Api
from tests.control_api.management.test_heartbeats import HEARTBEATS, create, environment_of


async def find(api: Api, name: str, environment: str = "shop/staging") -> int | None:
    public_id = api.platform.acme.environment(environment).public_id
    return await find_heartbeat_by_name(api.platform.directory, public_id, name)


@pytest.mark.both_databases
async def test_names_follow_every_change(api: Api) -> None:
    first, second = await create(api, name="one"), await create(api, name="zwei ü")
    assert [await find(api, name) for name in ("one", "zwei ü", "One", "three")] == [
        first["id"],
        second["id"],
        None,
        None,
    ]
    assert await find(api, "one", "shop/production") is None
    # Two heartbeats exchange a name.
    for number, name in ((first["id"], "three"), (second["id"], "one")):
        changed = await api.call("PATCH", f"{HEARTBEATS}/{number}", {"name": name}, by="deployer")
        assert changed.status == 200
    assert [await find(api, name) for name in ("one", "zwei ü", "three")] == [second["id"], None, first["id"]]
    await api.call("DELETE", f"{HEARTBEATS}/{second['id']}", by="deployer")
    assert await find(api, "one") is None
    # A released name can be used again.
    third = await create(api, name="one")
    assert await find(api, "one") == third["id"]
    removed = await api.call("DELETE", environment_of(api), by="owner")
    assert removed.status == 200, removed.body
    assert [await find(api, name) for name in ("one", "three")] == [None, None]
