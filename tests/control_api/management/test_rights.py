"""The rights matrix of the management API, made from its operations: token, scope, account and role of each."""

import re
from datetime import UTC, datetime
from functools import partial

from sqlalchemy import Executable, update

from control_api.management.all_operations import ROUTERS
from control_api.operations.router import Operation
from control_api.reference.load_document import load_document
from control_domain.accounts.roles import AccountRight, Right, has_account_right, is_allowed
from control_domain.tables.accounts import ApiToken, Membership
from pipeline_contracts.credentials import digest_credential
from tests.control_api.management.conftest import Api
from tests.support.browsers import open_browser
from tests.support.deploy_platform import ALL_SCOPES, PEOPLE, Tenant, add_token
from tests.support.slow_bodies import send_slowly

OPERATIONS = [operation for router in ROUTERS for operation in router.operations]
OF_EVERYBODY = {
    "/v1/tokens",
    "/v1/me/notification-preferences",
    # The right depends on the project in the body, which the body of this test lacks.
    "/v1/notification-rules",
    "/v1/silences",
}
"""The rights of a member of the account."""
OPEN = {
    "accept_invitation",
    "sign_in",
    "sign_in_with_link",
    "sign_in_with_invitation",
    "read_sign_in_options",
    "read_link_owner",
    "read_invitation_details",
    "open_shared_report",
    "read_shared_figures",
    "read_shared_lists",
    "read_shared_conversions",
    "read_shared_page_speed",
    "read_shared_current_visitors",
}
"""Operations without an API token: each has a secret in its body, or returns nothing about an account."""


def test_every_operation_has_access() -> None:
    assert {operation.id for operation in OPERATIONS if operation.access is None} <= OPEN


def _address(path: str, tenant: Tenant) -> str:
    """Return the path with objects of the tenant. Parameters that are not objects of a tenant are 1."""
    known = {
        "project": tenant.projects["shop"].public_id,
        "environment": tenant.environment("shop/production").public_id,
        "person": tenant.people["viewer"].public_id,
        "build": tenant.deployments["production"].id,
        "site": tenant.site.id if tenant.site else 1,
        "heartbeat": tenant.heartbeat.id if tenant.heartbeat else 1,
        "queue": tenant.queue.id if tenant.queue else 1,
        "repository": tenant.repository.id if tenant.repository else 1,
        **tenant.notified,
    }
    return re.sub(r"\{(\w+)\}", lambda found: str(known.get(found[1], 1)), path)


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
        "channel",
        "rule",
        "threshold",
        "silence",
        "incident",
        "notification",
    )


async def test_rights_matrix(shared_api: Api) -> None:
    """401 without a token, 403 without the scope, 404 for an object of another account, 403 below the right.

    No body is sent: an authorized caller gets 415 for that, or the response of a read."""
    platform = shared_api.platform
    for operation in OPERATIONS:
        if operation.access is None or operation.access.needs_session:
            continue
        scope, right = operation.access.scope, operation.access.right
        address = _address(operation.path, platform.acme)
        without = await platform.call(operation.method, address, headers={"Authorization": None})
        assert without.problem == (401, "invalid-credential"), operation.id
        lacking = await shared_api.call(operation.method, address, scopes=ALL_SCOPES - {scope})
        assert lacking.problem == (403, "missing-scope"), operation.id
        assert scope in lacking.json()["detail"]
        if "{" in operation.path:
            foreign = await shared_api.call(operation.method, _address(operation.path, platform.other))
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


async def test_rights_of_sessions(shared_api: Api) -> None:
    """A session has the rights of its person in its account, like a token with all scopes. Pages of other origins
    cannot use it."""
    platform = shared_api.platform
    stranger, owner = await open_browser(platform, "stranger"), await open_browser(platform)
    for operation in OPERATIONS:
        if operation.access is None:
            continue
        address = _address(operation.path, platform.acme)
        crossing = await stranger.call(operation.method, address, headers={"Sec-Fetch-Site": "same-site"})
        assert crossing.problem == (403, "cross-site-request"), operation.id
        if operation.access.needs_session:
            without = await platform.call(operation.method, address, headers={"Authorization": None})
            assert without.problem == (401, "invalid-credential"), operation.id
            by_token = await shared_api.call(operation.method, address)
            assert by_token.problem == (403, "session-required"), operation.id
        elif operation.method == "GET":
            of_session = await stranger.call(operation.method, address)
            of_token = await shared_api.call(operation.method, address, by="stranger")
            assert of_session.status == of_token.status, operation.id
        # Pages write as well: even an owner gets 404 for an object of another account.
        if not operation.access.needs_session and _first_parameter_is_known(operation):
            foreign = await owner.call(operation.method, _address(operation.path, platform.other))
            assert foreign.problem == (404, "not-found"), operation.id


async def test_the_caller_is_checked_again_after_the_body(shared_api: Api) -> None:
    """A token is revoked, or its person loses the role in the account, after the request was authenticated."""
    platform = shared_api.platform
    admin = platform.acme.people["admin"]

    async def write(statement: Executable) -> None:
        async with platform.sessions() as session, session.begin():
            await session.execute(statement)

    def set_role(role: str) -> Executable:
        return update(Membership).where(Membership.person_id == admin.id).values(role=role)

    checked = [
        (method.upper(), path)
        for path, operations in load_document()["paths"].items()
        for method, operation in operations.items()
        if "requestBody" in operation
        and "apiToken" in str(operation["security"])
        # The change with this number does not exist.
        and "{change}" not in path
    ]
    assert len(checked) > 35
    for method, path in checked:
        address = _address(path, platform.acme)
        for is_revoked in (True, False):
            async with platform.sessions() as session, session.begin():
                token = await add_token(session, platform.acme, admin, ALL_SCOPES)
            own = ApiToken.digest == digest_credential(token)
            revoke = update(ApiToken).where(own).values(revoked_at=datetime.now(UTC))
            change = revoke if is_revoked else set_role("member")
            refused = await send_slowly(platform, method, address, token, partial(write, change))
            await write(set_role("admin"))
            if is_revoked:
                assert refused.problem == (401, "invalid-credential"), (method, path)
            elif path not in OF_EVERYBODY:
                assert refused.problem in ((403, "not-allowed"), (403, "deploy-not-allowed")), (method, path)


def test_the_reference_names_who_may_do_it() -> None:
    paths = load_document()["paths"]
    words = {
        Right.READ: "Needs a role in the project.",
        Right.DEPLOY: "Needs the role deployer or maintainer",
        Right.DECIDE: "Needs the role maintainer",
        Right.MANAGE: "Needs the role maintainer",
    }
    account_words = {
        AccountRight.READ: "",
        AccountRight.MANAGE: "Only for owners and admins",
        AccountRight.OWN: "Only for owners of the account",
    }
    for operation in OPERATIONS:
        description = paths[operation.path][operation.method.lower()].get("description", "")
        if operation.access is None:
            continue
        right = operation.access.right
        expected = words[right] if isinstance(right, Right) else account_words[AccountRight(right)]
        assert expected in description, (operation.id, description)
        if isinstance(right, Right):
            assert "Only for owners" not in description, operation.id
