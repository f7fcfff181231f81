"""People in accounts as an operator handles them, by the names of the actions, on both databases."""

import asyncio
from datetime import timedelta

import pytest
from sqlalchemy import select

from control_domain.database.engine import Sessions
from control_domain.tables.accounts import ApiToken, Membership
from control_domain.tables.audit import AuditEntry
from control_domain.tables.projects import ProjectRole
from tests.support.operator import NOW, Operator, make_operator

_ROUNDS = 10


@pytest.fixture
def operator(sessions: Sessions) -> Operator:
    return make_operator(sessions)


@pytest.mark.both_databases
async def test_people_are_added_and_get_roles(operator: Operator) -> None:
    beta = await operator.add_account("beta")
    told = await operator.act("people/add", email="Eve@Example.com", name="Eve", account_id="beta")
    assert told == {
        "id": told["id"],
        "name": "Eve",
        "email": "eve@example.com",
        "number": told["number"],
        "role": "member",
        "account": {"id": beta["id"], "name": "Beta", "slug": "beta"},
    }
    changed = await operator.act("people/role", email="EVE@example.com", role="admin")
    assert changed == {**told, "role": "admin"}
    # What it is already changes nothing, and is not written down.
    assert await operator.act("people/role", email=told["id"], role="admin") == changed
    assert await operator.act("people/list", account_id="beta") == [
        {**beta["owner"], "number": told["number"] - 1, "role": "owner", "account": told["account"]},
        changed,
    ]
    subject = f"person {told['id']}"
    assert (await operator.read_audit_log())[1:] == [("person.add", subject), ("person.role", subject)]
    newest = (await operator.act("audit/list"))[0]
    assert newest["details"] == {"from": "member", "to": "admin"}


async def test_people_are_listed_by_account(operator: Operator) -> None:
    await operator.add_account("first")
    await operator.add_account("second", "second@example.com")
    assert [one["email"] for one in await operator.act("people/list", account_id="second")] == [
        "second@example.com"
    ]
    told = await operator.expect_refusal(
        "people/role", email="owner@example.com", role="member", account_id="second"
    )
    assert told == (
        "owner@example.com is not in the account second: add them with "
        "`pharos person add owner@example.com --account second`."
    )


async def test_invalid_people_are_refused(operator: Operator) -> None:
    await operator.add_account("beta")
    for wanted, told in (
        (
            {"email": "owner@example.com", "name": "Olga"},
            "owner@example.com is in the account beta already: `pharos person set-role` changes the role.",
        ),
        (
            {"email": "eve@example.com"},
            "Nobody has the address eve@example.com yet: give a name as well, with --name.",
        ),
        ({"email": "eve", "name": "Eve"}, "'eve' is no e-mail address: write one like ada@example.com."),
        (
            {"email": "eve@example.com", "name": "Eve", "role": "boss"},
            "'boss' is no role in an account: choose one of owner, admin, member.",
        ),
        (
            {"email": "eve@example.com", "name": "Eve", "account_id": "no"},
            "There is no account no; `pharos account list` shows all.",
        ),
    ):
        assert await operator.expect_refusal("people/add", **wanted) == told
    assert await operator.count(AuditEntry) == 1


async def test_a_person_of_another_account_needs_no_name(operator: Operator) -> None:
    first = await operator.add_account("first")
    await operator.add_account("second", "second@example.com")
    told = await operator.act("people/add", email="owner@example.com", account_id="second", role="admin")
    assert (told["id"], told["name"], "warning" in told) == (first["owner"]["id"], "Olga Owner", False)
    named = await operator.act("people/add", email="second@example.com", account_id="first", name="Another")
    assert "second@example.com is known as Olga Owner" in named["warning"]


# SQLite runs them one after another; on Postgres a unique constraint decides.
@pytest.mark.both_databases
async def test_two_concurrent_requests_add_a_person_once(operator: Operator) -> None:
    """To two accounts at once: one person comes of it, and who was too late is told."""
    slugs = [f"a{number}" for number in range(4)]
    for slug in slugs:
        await operator.add_account(slug)
    # The first round opens the connections, one after another.
    for number in range(3):
        email = f"eve{number}@example.com"
        told = await asyncio.gather(
            *(operator.act("people/add", email=email, name="Eve", account_id=slug) for slug in slugs),
            return_exceptions=True,
        )
        late = [str(one) for one in told if isinstance(one, BaseException)]
        assert set(late) <= {f"Somebody else has added {email} meanwhile: run the command again."}
        eves = [one for one in await operator.act("people/list") if one["email"] == email]
        assert len(eves) == len(slugs) - len(late)
        assert len({one["id"] for one in eves}) == 1


async def test_the_last_owner_cannot_be_removed(operator: Operator) -> None:
    await operator.add_account("beta")
    await operator.act("people/add", email="eve@example.com", name="Eve", role="admin")
    last = (
        "owner@example.com is the last owner of the account beta: make somebody else owner first, with "
        "`pharos person set-role`."
    )
    for action, wanted in (("people/remove", {}), ("people/role", {"role": "admin"})):
        assert await operator.expect_refusal(action, email="owner@example.com", **wanted) == last
    await operator.act("people/role", email="owner@example.com", role="owner")
    await operator.act("people/role", email="eve@example.com", role="owner")
    await operator.act("people/role", email="owner@example.com", role="member")
    assert "eve@example.com is the last owner" in await operator.expect_refusal(
        "people/remove", email="eve@example.com"
    )
    # An owner elsewhere is none here.
    await operator.add_account("other")
    assert "is the last owner" in await operator.expect_refusal(
        "people/remove", email="eve@example.com", account_id="beta"
    )


@pytest.mark.both_databases
@pytest.mark.parametrize("second", ["people/remove", "people/role"])
async def test_two_owners_removed_at_once_leave_one(operator: Operator, second: str) -> None:
    for number in range(_ROUNDS):
        slug = f"a{number}"
        await operator.add_account(slug)
        await operator.act("people/add", email="eve@example.com", name="Eve", role="owner", account_id=slug)
        told = await asyncio.gather(
            operator.act("people/remove", email="owner@example.com", account_id=slug),
            operator.act(second, email="eve@example.com", role="member", account_id=slug),
            return_exceptions=True,
        )
        (refusal,) = [one for one in told if isinstance(one, BaseException)]
        assert "is the last owner" in str(refusal)
        roles = [one["role"] for one in await operator.act("people/list", account_id=slug)]
        assert roles.count("owner") == 1


@pytest.mark.both_databases
async def test_a_former_member_loses_access_to_that_account_only(operator: Operator) -> None:
    for slug in ("first", "second"):
        await operator.add_account(slug)
        await operator.act("people/add", email="eve@example.com", name="Eve", account_id=slug)
        for project in ("Shop", "Blog"):
            made = await operator.act("projects/create", name=project, account_id=slug)
            await operator.act("projects/grant", id=made["id"], email="eve@example.com", role="viewer")
    tokens = {
        (slug, expires): await operator.act(
            "tokens/create",
            person="eve@example.com",
            account_id=slug,
            scopes=["deploy:read"],
            expires_seconds=expires,
        )
        for slug in ("first", "second")
        for expires in (None, 60)
    }
    owners = await operator.act(
        "tokens/create", person="owner@example.com", account_id="first", scopes=["deploy:read"]
    )
    later = NOW + timedelta(hours=1)
    told = await operator.act("people/remove", email="eve@example.com", account_id="first", at=later)
    # One of the two tokens had expired.
    assert (told["removed"], told["tokens_revoked"], told["project_roles_removed"]) == (True, 1, 2)
    assert (told["email"], told["account"]["slug"]) == ("eve@example.com", "first")
    assert await operator.caller(tokens["first", None]["api_token"], later) is None
    assert await operator.caller(tokens["second", None]["api_token"], later) is not None
    assert await operator.caller(owners["api_token"], later) is not None
    assert await operator.count(ProjectRole) == 2
    emails = [one["email"] for one in await operator.act("people/list", account_id="first")]
    assert emails == ["owner@example.com"]
    # Who comes back begins anew.
    await operator.act("people/add", email="eve@example.com", account_id="first")
    assert await operator.caller(tokens["first", None]["api_token"], later) is None
    assert await operator.count(ProjectRole) == 2
    (entry,) = [one for one in await operator.act("audit/list") if one["action"] == "person.remove"]
    assert entry["details"] == {"role": "member", "project_roles": 2, "tokens": 1}
    await operator.check_references()


@pytest.mark.both_databases
async def test_a_person_being_removed_gets_no_new_access(operator: Operator) -> None:
    """No token that works and no role is left of somebody who is out."""
    await operator.add_account("beta")
    project = await operator.act("projects/create", name="Shop")
    for _ in range(_ROUNDS):
        await operator.act("people/add", email="eve@example.com", name="Eve")
        told = await asyncio.gather(
            operator.act("tokens/create", person="eve@example.com", scopes=["account:read"]),
            operator.act("projects/grant", id=project["id"], email="eve@example.com", role="viewer"),
            operator.act("people/remove", email="eve@example.com"),
            return_exceptions=True,
        )
        assert not isinstance(told[2], BaseException)
        for one in told[:2]:
            assert not isinstance(one, BaseException) or "is not in the account beta" in str(one)
    async with operator.engines.sessions() as session:
        live = select(ApiToken.id).where(ApiToken.revoked_at.is_(None))
        assert (await session.execute(live)).all() == []
    assert await operator.count(ProjectRole) == 0
    assert await operator.count(Membership) == 1
