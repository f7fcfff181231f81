"""Settings of the account."""

import pytest

from tests.control_api.management.conftest import Api


async def test_rename(api: Api) -> None:
    account = api.platform.acme.account
    seen = await api.call("PATCH", "/v1/account", {}, by="admin")
    assert seen.data == {"id": account.public_id, "name": "Acme", "slug": "acme"}
    changes, etag = {"name": " Acme & Co ", "slug": "other"}, {"If-Match": seen.headers["ETag"]}
    renamed = await api.call("PATCH", "/v1/account", changes, by="admin", headers=etag)
    assert renamed.data == {**seen.data, "name": "Acme & Co"} == await api.read("/v1/account")
    await api.expect((412, "precondition-failed"), "PATCH", "/v1/account", {"name": "X"}, headers=etag)
    before = await api.platform.contents()
    assert (await api.call("PATCH", "/v1/account", {"name": "Acme & Co"})).data == renamed.data
    assert await api.platform.contents() == before
    assert await api.audit(1) == [("account.rename", f"account {account.public_id}")]


@pytest.mark.parametrize("name", ["", "  ", "a" * 101, "tab\there", "nul\0", 7])
async def test_invalid_name(shared_api: Api, name: object) -> None:
    refused = await shared_api.call("PATCH", "/v1/account", {"name": name})
    assert (refused.problem, refused.fields) == ((422, "validation-failed"), ["name"])
