"""`If-Match` is never ignored: no operation applies to another version of its object."""

import re
from typing import Any

import pytest

from control_api.management.all_operations import ROUTERS
from control_api.operations.router import Operation
from control_api.reference.load_document import load_document
from tests.control_api.management.conftest import Api
from tests.support.deploy_platform import Tenant

_OPERATIONS = [operation for router in ROUTERS for operation in router.operations]
_WRONG = {"If-Match": '"of another version"'}


def _address(path: str, tenant: Tenant) -> str:
    """Return the path with objects of the tenant. Objects that the tenant does not have get the number 1."""
    assert tenant.site is not None and tenant.heartbeat is not None and tenant.queue is not None
    assert tenant.repository is not None
    known = {
        "project": tenant.projects["shop"].public_id,
        "environment": tenant.environment("shop/production").public_id,
        "person": tenant.people["viewer"].public_id,
        "build": tenant.deployments["production"].id,
        "site": tenant.site.id,
        "heartbeat": tenant.heartbeat.id,
        "queue": tenant.queue.id,
        "repository": tenant.repository.id,
        **tenant.notified,
    }
    return re.sub(r"\{(\w+)\}", lambda found: str(known.get(found[1], 1)), path)


def _sample(schema: dict[str, Any]) -> Any:
    """Return a value of the schema, with the required members only."""
    if "$ref" in schema:
        return _sample(load_document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    if "enum" in schema:
        return schema["enum"][0]
    if "examples" in schema:
        return schema["examples"][0]
    if "anyOf" in schema:
        return _sample(schema["anyOf"][0])
    match schema["type"]:
        case "object":
            return {name: _sample(schema["properties"][name]) for name in schema.get("required", ())}
        case "array":
            return [_sample(schema["items"])] * schema.get("minItems", 0)
        case "string":
            return "a" * max(1, schema.get("minLength", 0))
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
    raise ValueError(f"no sample of {schema}")


def _body(operation: Operation) -> Any:
    described = load_document()["paths"][operation.path][operation.method.lower()]
    if "requestBody" not in described:
        return None
    return _sample(described["requestBody"]["content"]["application/json"]["schema"])


async def test_another_version(shared_api: Api) -> None:
    """Each operation is refused, and nothing changes. If the object has an ETag, the response has the present one."""
    refused = set()
    contents = await shared_api.platform.contents()
    for operation in _OPERATIONS:
        if operation.access is None or operation.access.needs_session:
            continue
        path = _address(operation.path, shared_api.platform.acme)
        response = await shared_api.call(operation.method, path, _body(operation), headers=_WRONG)
        if response.status != 412:
            # The object of the request does not exist, or the request is invalid even without the header.
            assert response.status in (404, 422), (operation.id, response.status, response.body)
            continue
        refused.add(operation.id)
        assert response.problem == (412, "precondition-failed")
        assert ("ETag" in response.headers) is operation.checks_if_match, operation.id
    assert await shared_api.platform.contents() == contents
    assert len(refused) > 75
    assert {each.id for each in _OPERATIONS if each.checks_if_match} - refused <= {
        # There is no such group.
        "read_exception",
        "update_exception",
    }


@pytest.mark.parametrize("tags", ["*", '"of another version", {etag}', "{etag}"])
async def test_the_present_version(shared_api: Api, tags: str) -> None:
    """The operation is conditional on the present version."""
    for operation in _OPERATIONS:
        if operation.method == "GET" and operation.has_etag and operation.id != "read_exception":
            path = _address(operation.path, shared_api.platform.acme)
            etag = (await shared_api.call("GET", path)).headers["ETag"]
            read = await shared_api.call("GET", path, headers={"If-Match": tags.format(etag=etag)})
            assert (read.status, read.headers["ETag"]) == (200, etag), operation.id
    any_version = await shared_api.call("GET", "/v1/people", headers={"If-Match": "*"})
    assert any_version.status == 200


_REMOVED = ("person", "repository", "heartbeat", "queue", "site", "channel", "rule", "threshold")


@pytest.mark.parametrize("kind", [*_REMOVED, "project", "environment"])
async def test_removals_of_one_version(monitored: Api, kind: str) -> None:
    """An object that changed after it was read is not removed."""
    api = monitored
    [path] = [
        each.path for each in _OPERATIONS if each.method == "PATCH" and each.path.endswith(f"/{{{kind}}}")
    ]
    path = _address(path, api.platform.acme)
    change: dict[str, Any] = {
        "person": {"role": "admin"},
        "repository": {"branch": "develop"},
        "environment": {"approval": {"deploys": False}, "name": "Live"},
    }.get(kind, {"name": "Other"})
    if kind == "project":
        # A project without environments and sites.
        made = await api.call("POST", "/v1/projects", {"name": "Empty", "slug": "empty"})
        path = f"/v1/projects/{made.data['id']}"
    before = await api.call("PATCH", path, {})
    assert before.status == 200
    after = await api.call("PATCH", path, change)
    assert after.status == 200 and after.headers["ETag"] != before.headers["ETag"]
    old, new = ({"If-Match": each.headers["ETag"]} for each in (before, after))
    await api.expect((412, "precondition-failed"), "DELETE", path, headers=old)
    removed = await api.call("DELETE", path, headers=new)
    assert removed.status == 200, removed.body
