"""Authorization of every route. The routes come from the application itself: a new one needs a row in the table.

The operations of the management API have their own test, `tests/control_api/management/test_rights.py`.
"""

import re
from collections.abc import AsyncIterator, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.routing import iter_route_contexts
from sqlalchemy import delete, update

from control_api.management.all_operations import ROUTERS
from control_domain.accounts.operations import create_person
from control_domain.accounts.roles import Right
from control_domain.projects.operations import create_ingest_key
from control_domain.tables.accounts import Membership
from control_domain.tables.projects import IngestKey, Project
from pipeline_contracts.credentials import CredentialKind, digest_credential, make_credential
from tests.control_api.deploy_api.route_table import (
    OPEN,
    ROWS,
    Row,
    address,
    addresses,
    body_of,
    credential,
    identities,
)
from tests.support.deploy_platform import ALL_SCOPES, PEOPLE, SCOPE_SETS, Platform, add_token
from tests.support.reviews import restore_reviewed
from tests.support.serve_control import VARIABLE_KEYS

NOBODYS = [
    2_000_000_000, 0, -1, 2**31, 2**63, 10**40, "abc", "prj_zzz", "env_zzz", "x" * 3000, "1.0", "+1", "1e3",
    "%201", "0x1", "%D9%A1", "%F0%9F%98%80", "%C3%A9", "%00", "a%00b", "1%00", "%FF", "%ED%A0%80", "null",
    "%27%20OR%201%3D1", "%25", "..%5C",
]  # fmt: skip


@dataclass(slots=True)
class Locked:
    """A platform with invalid credentials, by the reason why they are invalid."""

    platform: Platform
    tokens: dict[str, str]
    keys: dict[str, str]

    def headers(self, row: Row) -> dict[str, str | None]:
        """Return the `Authorization` headers that this route must refuse."""
        platform, dead = self.platform, self.tokens if row.is_for_people else self.keys
        kind = CredentialKind.API_TOKEN if row.is_for_people else CredentialKind.INGEST_KEY
        good = credential(row, platform.acme)
        wrong_sum = good[:-1] + ("a" if good[-1] != "a" else "b")
        other_kind = platform.acme.ingest_key if row.is_for_people else platform.acme.token()
        bearers = {
            "garbage": "garbage",
            "garbage of the right length": kind.value + "!" * 38,
            "wrong check sum": wrong_sum,
            "unknown": make_credential(kind),
            "the wrong kind": other_kind,
            "a monitor key": make_credential(CredentialKind.MONITOR_KEY),
            "a tracker ID": make_credential(CredentialKind.SITE),
            "not ASCII": good[:-1] + "é",
            "endless": good * 100,
            "two": f"{good} {good}",
            **dead,
        }
        return {
            "none": None,
            "empty": "",
            "no scheme": good,
            "Basic": f"Basic {good}",
            "Token": f"Token {good}",
            "Bearer alone": "Bearer",
            **{name: f"Bearer {bearer}" for name, bearer in bearers.items()},
        }


@pytest.fixture(scope="module")
async def locked(shared: Platform) -> AsyncIterator[Locked]:
    now = datetime.now(UTC)
    past = now - timedelta(seconds=1)
    acme, tokens, keys = shared.acme, {}, {}
    ended = {"revoked": {"revoked_at": past}, "expired": {"expires_at": past}}
    async with shared.sessions() as session, session.begin():
        for name, values in ended.items():
            owner = acme.people["owner"]
            tokens[name] = await add_token(session, acme, owner, ALL_SCOPES, **values)
            keys[name] = await create_ingest_key(session, acme.environment("shop/production"), now)
            digest = digest_credential(keys[name])
            await session.execute(update(IngestKey).where(IngestKey.digest == digest).values(**values))
        gone = await create_person(session, acme.account, "Gone", "gone@example.com", "owner", now)
        tokens["of a former member"] = await add_token(session, acme, gone, ALL_SCOPES)
        await session.execute(delete(Membership).where(Membership.person_id == gone.id))
    yield Locked(shared, tokens, keys)


@pytest.fixture(scope="module", autouse=True)
async def _settled(shared: Platform) -> None:
    await _settle(shared)


async def _settle(platform: Platform) -> None:
    """Reset the state, so that every route can be called again."""
    await platform.settle()
    async with platform.sessions() as session, session.begin():
        for tenant in (platform.acme, platform.other):
            project = await session.get_one(Project, tenant.projects["shop"].id)
            reviewed = tenant.reviewed["shop"]
            await restore_reviewed(session, VARIABLE_KEYS, project, reviewed, datetime.now(UTC))


def test_table_lists_every_route(shared: Platform) -> None:
    served = {
        (method, re.sub(r":\w+}", "}", str(route.path).removeprefix("/api")))
        for route in iter_route_contexts(shared.app.routes)
        if route.include_in_schema
        for method in route.methods or ()
    }
    assert served >= OPEN
    management = {(each.method, each.path) for router in ROUTERS for each in router.operations}
    expected = served - OPEN - management
    assert {(row.method, row.path) for row in ROWS} == expected
    assert len(ROWS) == len(expected)


@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_invalid_credential_is_401(locked: Locked, row: Row) -> None:
    platform = locked.platform
    before = await platform.contents()
    path, body = address(row, platform.acme), body_of(row, platform.acme)
    for name, header in locked.headers(row).items():
        answer = await platform.call(row.method, path, body, headers={"Authorization": header})
        assert answer.problem == (401, "invalid-credential"), name
        assert answer.headers["WWW-Authenticate"] == "Bearer", name
        # The credential is checked first, so that a caller cannot find out which objects exist.
        answer = await platform.call(row.method, row.at("nothing"), b"{", headers={"Authorization": header})
        assert answer.status == 401, name
    assert await platform.contents() == before


@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_authorization_scheme_is_case_insensitive(shared: Platform, row: Row) -> None:
    good = credential(row, shared.acme)
    for scheme in ("bearer", "BEARER", "BeArEr"):
        headers = {"Authorization": f"{scheme} {good}"}
        answer = await shared.call(row.method, row.at("nothing"), b"{", headers=headers)
        assert answer.status != 401


@pytest.mark.parametrize("row", [row for row in ROWS if row.is_for_people], ids=str)
async def test_missing_scope_is_403_with_its_name(shared: Platform, row: Row) -> None:
    before = await shared.contents()
    lacking = [scopes for scopes in SCOPE_SETS if row.needs not in scopes]
    assert len(lacking) == 9
    for scopes in lacking:
        for path in (address(row, shared.acme), address(row, shared.other), row.at("nothing")):
            token = shared.acme.token("owner", scopes)
            answer = await shared.call(row.method, path, body_of(row, shared.acme), token=token)
            assert answer.problem == (403, "missing-scope"), scopes
            assert str(row.needs) in answer.json()["detail"]
    assert await shared.contents() == before


def _rows_with_parameters() -> list[Any]:
    """Return each row with each of its path parameters. One row per parameter, a GET if there is one, runs on Postgres
    too: Postgres refuses a NUL and numbers that the column cannot hold, SQLite accepts both."""
    pairs = [(row, parameter) for row in ROWS for parameter in row.parameters if parameter != "action"]
    chosen: dict[str, Row] = {}
    for row, parameter in sorted(pairs, key=lambda pair: pair[0].method != "GET"):
        chosen.setdefault(parameter, row)
    both = pytest.mark.both_databases
    return [
        pytest.param(row, parameter, marks=both if chosen[parameter] is row else ())
        for row, parameter in pairs
    ]


@pytest.mark.parametrize(("row", "parameter"), _rows_with_parameters(), ids=str)
async def test_objects_of_other_accounts_are_indistinguishable_404s(
    shared: Platform, row: Row, parameter: str
) -> None:
    before = await shared.contents()
    body = body_of(row, shared.acme)
    bodies = {}
    for identity in [*identities(parameter, shared.other), *NOBODYS]:
        path = address(row, shared.acme, **{parameter: identity})
        for sent in (body, b"{"):
            answer = await shared.call(row.method, path, sent, token=credential(row, shared.acme))
            assert answer.problem == (404, "not-found"), identity
            bodies[answer.body] = identity
    assert len(bodies) == 1, bodies
    # The reverse holds too: the other account cannot see acme's objects.
    for identity in identities(parameter, shared.acme):
        path = address(row, shared.other, **{parameter: identity})
        answer = await shared.call(row.method, path, body, token=credential(row, shared.other))
        assert answer.body in bodies
    for path in addresses(row, shared.acme):
        answer = await shared.call(row.method, path, body, token=credential(row, shared.other))
        assert answer.problem == (404, "not-found")
    assert await shared.contents() == before


@pytest.mark.parametrize("row", [row for row in ROWS if len(row.parameters) > 1], ids=str)
async def test_objects_of_another_project_are_404(shared: Platform, row: Row) -> None:
    before = await shared.contents()
    of_shop, of_blog = (
        {parameter: identities(parameter, shared.acme, project)[0] for parameter in row.parameters}
        for project in ("shop", "blog")
    )
    for parameter in row.parameters:
        if of_shop[parameter] == of_blog[parameter]:
            continue
        for here, elsewhere in ((of_shop, of_blog), (of_blog, of_shop)):
            answer = await shared.call(row.method, row.at("", **{**here, parameter: elsewhere[parameter]}))
            assert answer.problem == (404, "not-found"), parameter
    assert await shared.contents() == before


@pytest.mark.parametrize("row", [row for row in ROWS if "action" in row.parameters], ids=str)
async def test_request_invalid_for_every_role_is_422(shared: Platform, row: Row) -> None:
    before = await shared.contents()
    for action in ("delete", "Cancel", "cancel%20", "retry%00", "running", "0", "x" * 3000):
        answer = await shared.call(row.method, address(row, shared.acme, action=action))
        assert (answer.problem, answer.fields) == ((422, "validation-failed"), ["action"]), action
    assert await shared.contents() == before


# The owner calls every route on both databases, so every statement runs on Postgres too.
@pytest.mark.parametrize(
    "who",
    [pytest.param(who, marks=pytest.mark.both_databases) if who == "owner" else who for who in PEOPLE],
)
@pytest.mark.parametrize("row", [row for row in ROWS if row.right], ids=str)
async def test_project_role_decides_access(shared: Platform, row: Row, who: str) -> None:
    allowed = {
        "stranger": [],
        "viewer": [Right.READ],
        "deployer": [Right.READ, Right.DEPLOY],
        "maintainer": [Right.READ, Right.DEPLOY],
        "admin": [Right.READ, Right.DEPLOY],
        "owner": [Right.READ, Right.DEPLOY],
    }[who]
    before = await shared.contents()
    for path in addresses(row, shared.acme):
        answer = await shared.call(row.method, path, body_of(row, shared.acme), token=shared.acme.token(who))
        if row.right in allowed:
            assert answer.status == row.status
            await _settle(shared)
            continue
        assert answer.problem == (403, "deploy-not-allowed")
        # The role is checked before the body.
        answer = await shared.call(row.method, path, b"{", token=shared.acme.token(who))
        assert answer.problem == (403, "deploy-not-allowed")
        assert await shared.contents() == before


@pytest.mark.parametrize("who", PEOPLE)
@pytest.mark.parametrize("row", [row for row in ROWS if row.is_for_people and not row.right], ids=str)
async def test_routes_outside_projects_need_only_the_scope(shared: Platform, row: Row, who: str) -> None:
    token = shared.acme.token(who, frozenset({str(row.needs)}))
    answer = await shared.call(row.method, address(row, shared.acme), token=token)
    assert answer.status == row.status


@pytest.mark.parametrize("row", [row for row in ROWS if not row.is_for_people], ids=str)
async def test_ingest_key_authenticates_its_route(shared: Platform, row: Row) -> None:
    path, body = address(row, shared.acme), body_of(row, shared.acme)
    answer = await shared.call(row.method, path, body, token=shared.acme.ingest_key)
    assert answer.status in (row.status, 200)


@pytest.mark.parametrize("row", [row for row in ROWS if row.right], ids=str)
async def test_account_role_gives_no_access_to_other_accounts(shared: Platform, row: Row) -> None:
    """A person who is an owner in another account and only a viewer in this one."""
    now = datetime.now(UTC)
    async with shared.sessions() as session, session.begin():
        elsewhere = Membership(
            account_id=shared.other.account.id, person_id=shared.acme.people["viewer"].id, role="owner"
        )
        session.add(elsewhere)
        token = await add_token(
            session, shared.other, shared.acme.people["viewer"], ALL_SCOPES, created_at=now
        )
    try:
        path, body = address(row, shared.acme), body_of(row, shared.acme)
        assert (await shared.call(row.method, path, body, token=token)).status == 404
        here = await shared.call(row.method, path, body, token=shared.acme.token("viewer"))
        assert here.status == (row.status if row.right is Right.READ else 403)
        path, body = address(row, shared.other), body_of(row, shared.other)
        assert (await shared.call(row.method, path, body, token=token)).status == row.status
    finally:
        await _settle(shared)
        async with shared.sessions() as session, session.begin():
            await session.execute(delete(Membership).where(Membership.id == elsewhere.id))


_SANE = ("a", "req-1_2.3:4/5+6=7@8", "x" * 128)
_INSANE = (None, "", "x" * 129, "a b", "é", "a\tb")


@pytest.mark.parametrize(
    ("row", "sane", "insane"),
    [
        pytest.param(ROWS[0], _SANE, _INSANE, id=f"{ROWS[0]}, all"),
        *(pytest.param(row, _SANE[:1], _INSANE[:1], id=str(row)) for row in ROWS[1:]),
        # One function reads the header for all routes.
        *(pytest.param(row, _SANE, _INSANE, id=f"{row}, all", marks=pytest.mark.full) for row in ROWS[1:]),
    ],
)
async def test_every_response_has_a_request_id(
    shared: Platform, row: Row, sane: Iterable[str], insane: Collection[str | None]
) -> None:
    """A well-formed ID of the caller is returned, otherwise a new one; in successful and in error responses."""
    path, body = address(row, shared.acme), body_of(row, shared.acme)
    made = set()
    good = f"Bearer {credential(row, shared.acme)}"
    for header in (good, None):
        changes = header == good and row.method != "GET"
        for identity in sane:
            headers = {"Authorization": header, "X-Request-Id": identity}
            answer = await shared.call(row.method, path, body, headers=headers)
            assert answer.headers.getall("X-Request-Id") == [identity]  # type: ignore[attr-defined]
            if changes:
                await _settle(shared)
        for identity in insane:
            payload_error = {"Authorization": header, "X-Request-Id": identity}
            answer = await shared.call(row.method, path, body, headers=payload_error)
            made.add(answer.headers["X-Request-Id"])
            assert answer.headers["X-Request-Id"] != identity
            if changes:
                await _settle(shared)
    assert len(made) == 2 * len(insane)
