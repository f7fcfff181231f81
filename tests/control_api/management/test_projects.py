"""Projects and the roles in them."""

import pytest

from control_domain.projects import limits
from tests.control_api.management.conftest import Api


async def test_create_rename_remove(api: Api) -> None:
    made = await api.call("POST", "/v1/projects", {"name": " Blå Øy "}, by="admin")
    assert made.status == 201
    assert made.data == {"id": made.data["id"], "name": "Blå Øy", "slug": "bla-oy", "environments": []}
    path = f"/v1/projects/{made.data['id']}"
    assert await api.read(path) == made.data

    renamed = await api.call("PATCH", path, {"name": "Island"})
    assert renamed.data == {**made.data, "name": "Island"}
    removed = await api.call("DELETE", path)
    assert removed.data == {
        "id": made.data["id"],
        "name": "Island",
        "slug": "bla-oy",
        "deployments": 0,
    }
    assert (await api.call("GET", path)).problem == (404, "not-found")
    subject = f"project {made.data['id']}"
    assert await api.audit(3) == [
        ("project.remove", subject),
        ("project.rename", subject),
        ("project.create", subject),
    ]


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["name"]),
        ({"name": ""}, ["name"]),
        ({"name": "  "}, ["name"]),
        ({"name": "a" * 101, "slug": 7}, ["name", "slug"]),
        ({"name": "tab\there"}, ["name"]),
        ({"name": "nul\0"}, ["name"]),
        ({"name": "日本"}, ["slug"]),
        ({"name": "Shop", "slug": "Shop"}, ["slug"]),
        ({"name": "Shop", "slug": "12"}, ["slug"]),
        ({"name": "Shop", "slug": "a--b"}, ["slug"]),
        (b"[]", [""]),
        (b'{"name": "a", "name": "b"}', ["name"]),
    ],
)
async def test_invalid_projects(shared_api: Api, body: object, fields: list[str]) -> None:
    refused = await shared_api.call("POST", "/v1/projects", body)
    assert refused.problem == (422, "validation-failed")
    assert refused.fields == fields


async def test_slug_is_taken(api: Api) -> None:
    await api.expect((409, "name-taken"), "POST", "/v1/projects", {"name": "Shop"})


async def test_project_that_is_not_empty(api: Api) -> None:
    refused = await api.expect(
        (409, "conflict"), "DELETE", f"/v1/projects/{api.platform.acme.projects['shop'].id}"
    )
    assert "environments development, staging, production and the site Shop" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("limit", "path", "body"),
    [
        ("MAX_PROJECTS", "", {"name": "Third"}),
        ("MAX_ENVIRONMENTS", "/{}/environments", {"name": "QA", "type": "staging"}),
        ("MAX_PREVIEWS", "/{}/previews", {"branch": "login"}),
    ],
)
async def test_limits_of_numbers(
    api: Api, monkeypatch: pytest.MonkeyPatch, limit: str, path: str, body: dict[str, str]
) -> None:
    path = f"/v1/projects{path.format(api.platform.acme.projects['shop'].public_id)}"
    monkeypatch.setattr(limits, limit, 2 if limit == "MAX_PROJECTS" else 0)
    before = await api.platform.contents()
    refused = await api.expect((409, "conflict"), "POST", path, body)
    assert "which is the limit" in refused.json()["detail"]
    assert await api.platform.contents() == before


async def test_unknown_query_parameter(shared_api: Api) -> None:
    shop = f"/v1/projects/{shared_api.platform.acme.projects['shop'].public_id}"
    for path in (f"{shop}/members?page=2", f"{shop}/members?limit=0", f"{shop}/members?limit=1&limit=2"):
        refused = await shared_api.call("GET", path)
        assert refused.problem == (422, "validation-failed")
    assert (await shared_api.call("PATCH", f"{shop}?force=1", {})).fields == ["force"]


async def test_two_people_edit(api: Api) -> None:
    path = f"/v1/projects/{api.platform.acme.projects['shop'].public_id}"
    seen = await api.call("PATCH", path, {})
    etag = seen.headers["ETag"]
    assert (await api.call("PATCH", path, {"name": "Ada's"}, headers={"If-Match": etag})).status == 200
    refused = await api.expect(
        (412, "precondition-failed"), "PATCH", path, {"name": "Bob's"}, headers={"If-Match": etag}
    )
    assert (await api.read(path))["name"] == "Ada's"
    again = refused.headers["ETag"]
    assert (await api.call("PATCH", path, {"name": "Bob's"}, headers={"If-Match": again})).status == 200


async def test_repeated_creation(api: Api) -> None:
    headers = {"Idempotency-Key": "one"}
    first = await api.call("POST", "/v1/projects", {"name": "Wiki"}, headers=headers)
    again = await api.call("POST", "/v1/projects", {"name": "Wiki"}, headers=headers)
    assert (first.status, again.status, again.data) == (201, 201, first.data)
    assert again.headers["Idempotent-Replayed"] == "true"
    other = await api.call("POST", "/v1/projects", {"name": "Other"}, headers=headers)
    assert other.fields == ["Idempotency-Key"]


async def test_members(api: Api) -> None:
    acme = api.platform.acme
    shop, stranger = acme.projects["shop"].public_id, acme.people["stranger"]
    members = f"/v1/projects/{shop}/members"
    listed = await api.read_all(members)
    assert [each["person"]["email"].partition("@")[0] for each in listed] == [
        "viewer",
        "deployer",
        "maintainer",
    ]

    granted = await api.call("PUT", f"{members}/{stranger.public_id}", {"role": "viewer"}, by="maintainer")
    assert granted.data == {
        "person": {"id": stranger.public_id, "name": stranger.name, "email": stranger.email},
        "account_role": "member",
        "role": "viewer",
    }
    assert await api.read(f"/v1/projects/{shop}", by="stranger")
    # The same role again changes nothing.
    assert (await api.call("PUT", f"{members}/{stranger.id}", {"role": "viewer"})).status == 200
    assert (await api.call("DELETE", f"{members}/{stranger.public_id}")).data["role"] is None
    await api.expect((404, "not-found"), "DELETE", f"{members}/{stranger.public_id}")
    revoked, given = await api.read(f"/v1/audit?subject={shop}&limit=2")
    assert (revoked["action"], given["action"]) == ("project.revoke", "project.grant")
    assert revoked["details"] == {"person": stranger.public_id, "from": "viewer"}
    assert given["details"] == {"person": stranger.public_id, "from": None, "to": "viewer"}
    outsider = api.platform.other.people["owner"].public_id
    await api.expect((404, "not-found"), "PUT", f"{members}/{outsider}", {"role": "viewer"})
    refused = await api.expect(
        (422, "validation-failed"), "PUT", f"{members}/{stranger.public_id}", {"role": "king"}
    )
    assert refused.json()["errors"] == [
        {"field": "role", "message": "must be deployer, maintainer or viewer"}
    ]
