"""The rights matrix of the management API, made from its operations: token, scope, account and role of each."""

import re

from control_api.management.all_operations import ROUTERS
from control_api.operations.router import Operation
from control_domain.accounts.roles import AccountRight, Right, has_account_right, is_allowed
from tests.control_api.management.conftest import Api
from tests.support.deploy_platform import ALL_SCOPES, PEOPLE, Tenant

OPERATIONS = [operation for router in ROUTERS for operation in router.operations]
OPEN = {"accept_invitation"}
"""Operations without an API token; each has a secret in its body."""


def test_every_operation_has_access() -> None:
    assert {operation.id for operation in OPERATIONS if operation.access is None} <= OPEN


def _address(operation: Operation, tenant: Tenant) -> str:
    """Return the operation's address at an object of the tenant; parts that are none of a tenant's are 1."""
    known = {
        "project": tenant.projects["shop"].public_id,
        "environment": tenant.environment("shop/production").public_id,
        "person": tenant.people["viewer"].public_id,
        "build": tenant.deployments["production"].id,
        "site": tenant.site.id if tenant.site else 1,
        "heartbeat": tenant.heartbeat.id if tenant.heartbeat else 1,
        "queue": tenant.queue.id if tenant.queue else 1,
        "repository": tenant.repository.id if tenant.repository else 1,
    }
    return re.sub(r"\{(\w+)\}", lambda found: str(known.get(found[1], 1)), operation.path)


def _first_parameter_is_known(operation: Operation) -> bool:
    found = re.search(r"\{(\w+)\}", operation.path)
    return found is not None and found[1] in (
        "project",
        "environment",
        "person",
        "build",
        "site",
        "heartbeat",
        "queue",
        "repository",
    )


async def test_rights_matrix(shared_api: Api) -> None:
    """401 without a token, 403 without the scope, 404 for an object of another account, 403 below the right.

    No body is sent: who is let in gets 415 for that, or the answer of a read."""
    platform = shared_api.platform
    for operation in OPERATIONS:
        if operation.access is None:
            continue
        scope, right = operation.access.scope, operation.access.right
        address = _address(operation, platform.acme)
        without = await platform.call(operation.method, address, headers={"Authorization": None})
        assert without.problem == (401, "invalid-credential"), operation.id
        lacking = await shared_api.call(operation.method, address, scopes=ALL_SCOPES - {scope})
        assert lacking.problem == (403, "missing-scope"), operation.id
        assert scope in lacking.json()["detail"]
        if "{" in operation.path:
            foreign = await shared_api.call(operation.method, _address(operation, platform.other))
            if _first_parameter_is_known(operation):
                assert foreign.problem == (404, "not-found"), operation.id
        for person, (account_role, project_role) in PEOPLE.items():
            if isinstance(right, AccountRight):
                allowed, refusal = has_account_right(account_role, right), "not-allowed"
            else:
                assert isinstance(right, Right)
                allowed, refusal = is_allowed(account_role, project_role, right), "deploy-not-allowed"
            if not allowed:
                answer = await shared_api.call(operation.method, address, by=person)
                expected = [(403, refusal)]
                if not _first_parameter_is_known(operation) and "{" in operation.path:
                    expected.append((404, "not-found"))
                assert answer.problem in expected, (operation.id, person)
            elif operation.body is not None and not operation.is_body_optional:
                answer = await shared_api.call(operation.method, address, by=person)
                assert answer.status in (404, 415), (operation.id, person, answer)
            elif operation.method == "GET":
                answer = await shared_api.call(operation.method, address, by=person)
                assert answer.status in (200, 404, 409, 422), (operation.id, person, answer)
