"""The people in the account, and the rights to change them."""

import asyncio
import itertools
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select, update

from control_domain.accounts.operations import create_person
from control_domain.tables.accounts import ApiToken, Membership
from control_domain.tables.audit import AuditEntry
from control_domain.tables.notifications import Notification, NotificationGroup, NotificationMember
from control_domain.tables.projects import ProjectRole
from tests.control_api.management.conftest import Api
from tests.support.deploy_platform import ALL_SCOPES, PEOPLE, add_token
from tests.support.notification_rows import add_channel, add_incident, add_notification
from tests.support.slow_bodies import send_slowly


def path_of(api: Api, person: str) -> str:
    return f"/v1/people/{api.platform.acme.people[person].public_id}"


async def make_owner(api: Api, person: str = "admin") -> None:
    assert (await api.call("PATCH", path_of(api, person), {"role": "owner"})).status == 200


async def test_list_and_read(shared_api: Api) -> None:
    acme = shared_api.platform.acme
    listed = await shared_api.read_all("/v1/people")
    assert [(each["email"].partition("@")[0], each["role"]) for each in listed] == [
        (name, role) for name, (role, _) in reversed(PEOPLE.items())
    ]
    viewer = acme.people["viewer"]
    assert listed[1] == {
        "id": viewer.public_id,
        "name": "viewer of Acme",
        "email": "viewer@acme.example",
        "role": "member",
    }
    assert await shared_api.read("/v1/people?email=%20VIEWER@acme.example", by="stranger") == [listed[1]]
    assert await shared_api.read("/v1/people?email=owner@other.example") == []
    for number_or_id in (viewer.public_id, viewer.id):
        assert await shared_api.read(f"/v1/people/{number_or_id}", by="stranger") == listed[1]


@pytest.mark.parametrize(
    ("by", "target", "role", "problem"),
    [
        ("admin", "viewer", "admin", None),
        ("admin", "admin", "member", None),
        ("owner", "viewer", "owner", None),
        ("owner", "admin", "owner", None),
        # Only an owner may make a person an owner, or change an owner, even to the same role.
        ("admin", "viewer", "owner", (403, "not-allowed")),
        ("admin", "admin", "owner", (403, "not-allowed")),
        ("admin", "owner", "member", (403, "not-allowed")),
        ("admin", "owner", "owner", (403, "not-allowed")),
        ("viewer", "viewer", "admin", (403, "not-allowed")),
        ("owner", "owner", "admin", (409, "last-owner")),
        ("owner", "viewer", "king", (422, "validation-failed")),
    ],
)
async def test_roles(api: Api, by: str, target: str, role: str, problem: tuple[int, str] | None) -> None:
    path, former = path_of(api, target), PEOPLE[target][0]
    if problem is not None:
        await api.expect(problem, "PATCH", path, {"role": role}, by=by)
        return
    changed = await api.call("PATCH", path, {"role": role}, by=by)
    assert changed.data["role"] == role == (await api.read(path))["role"]
    assert await api.audit(1) == [("person.role", f"person {changed.data['id']}")]
    (entry,) = await api.read("/v1/audit?limit=1")
    assert entry["details"] == {"from": former, "to": role}


async def test_owner_may_leave_if_another_owner_exists(api: Api) -> None:
    await make_owner(api)
    assert (await api.call("PATCH", path_of(api, "owner"), {"role": "member"}, by="admin")).status == 200
    await api.expect((409, "last-owner"), "DELETE", path_of(api, "admin"), by="admin")


async def test_the_same_role_changes_nothing(api: Api) -> None:
    before = await api.platform.contents()
    for body in ({"role": "member"}, {"role": None}, {}):
        assert (await api.call("PATCH", path_of(api, "viewer"), body)).data["role"] == "member"
    assert await api.platform.contents() == before


async def test_two_people_edit(api: Api) -> None:
    path = path_of(api, "viewer")
    etag = {"If-Match": (await api.call("GET", path)).headers["ETag"]}
    assert (await api.call("PATCH", path, {"role": "admin"}, headers=etag)).status == 200
    await api.expect((412, "precondition-failed"), "PATCH", path, {"role": "member"}, headers=etag)


async def test_removal_ends_all_access(api: Api) -> None:
    platform = api.platform
    person = platform.acme.people["maintainer"]
    removed = await api.call("DELETE", path_of(api, "maintainer"), by="admin")
    assert removed.data == {
        "id": person.public_id,
        "name": person.name,
        "email": person.email,
        "role": "member",
        "project_roles": 1,
        "tokens": len([name for name, _ in platform.acme.tokens if name == "maintainer"]),
        "report_links": 0,
    }
    for path in (f"/v1/projects/{platform.acme.projects['shop'].public_id}", "/v1/account"):
        assert (await api.call("GET", path, by="maintainer")).problem == (401, "invalid-credential")
    (entry,) = await api.read("/v1/audit?limit=1")
    assert (entry["action"], entry["subject"]) == ("person.remove", f"person {person.public_id}")
    assert entry["details"] == {
        "role": "member",
        "project_roles": 1,
        "tokens": removed.data["tokens"],
        "report_links": 0,
        "revoked_report_links": False,
    }
    await api.expect((404, "not-found"), "DELETE", path_of(api, "maintainer"))
    # Tokens and roles of other people are unchanged.
    assert await api.read(f"/v1/projects/{platform.acme.projects['shop'].public_id}", by="viewer")


@pytest.mark.parametrize(
    ("by", "target", "problem"),
    [
        ("viewer", "viewer", None),
        ("admin", "admin", None),
        ("owner", "admin", None),
        ("viewer", "stranger", (403, "not-allowed")),
        ("maintainer", "owner", (403, "not-allowed")),
        ("admin", "owner", (403, "not-allowed")),
        ("owner", "owner", (409, "last-owner")),
    ],
)
async def test_who_removes_whom(api: Api, by: str, target: str, problem: tuple[int, str] | None) -> None:
    if problem is not None:
        await api.expect(problem, "DELETE", path_of(api, target), by=by)
        return
    assert (await api.call("DELETE", path_of(api, target), by=by)).status == 200
    assert (await api.call("GET", "/v1/account", by=target)).problem == (401, "invalid-credential")


@pytest.mark.parametrize(
    ("body", "left"),
    [({"role": "owner"}, {"owner", "member"}), ({"role": "admin"}, {"member"}), ({"role": "member"}, set())],
)
async def test_a_new_role_ends_invitations_that_go_beyond_it(
    api: Api, body: dict[str, str], left: set[str]
) -> None:
    await make_owner(api)
    for role in ("owner", "member"):
        invited = {"email": f"{role}@new.example", "role": role}
        assert (await api.call("POST", "/v1/invitations", invited, by="admin")).status == 201
    # An invitation of another person, which stays valid.
    assert (await api.call("POST", "/v1/invitations", {"email": "x@new.example"})).status == 201
    assert (await api.call("PATCH", path_of(api, "admin"), body)).status == 200
    pending = await api.read("/v1/invitations?state=pending")
    assert {each["role"] for each in pending if each["email"] != "x@new.example"} == left
    assert len(pending) == len(left) + 1


async def test_removal_ends_invitations(api: Api) -> None:
    invited = (await api.call("POST", "/v1/invitations", {"email": "x@new.example"}, by="admin")).data
    assert (await api.call("DELETE", path_of(api, "admin"))).status == 200
    body = {"invitation": invited["secret"], "name": "X"}
    await api.expect((404, "not-found"), "POST", "/v1/invitations/accept", body)


async def test_removal_cancels_notifications(api: Api) -> None:
    """Notifications of open incidents are cancelled too: after a new invitation, the person gets none about earlier
    incidents."""
    acme, other = api.platform.acme, api.platform.other
    person, now = acme.people["viewer"], datetime.now(UTC)
    async with api.platform.sessions() as session, session.begin():
        for tenant in (acme, other):
            channel = await add_channel(session, tenant, "ops", now)
            incident = await add_incident(session, tenant, now)
            for status in ("pending", "sent"):
                notification = await add_notification(session, tenant, incident, channel, now, status=status)
                notification.channel_id, notification.person_id = None, person.id
                group = await session.get_one(NotificationGroup, notification.group_id)
                group.key, group.channel_id, group.person_id = f"{incident.id} {status}", None, person.id
                session.add(NotificationMember(group_id=group.id, incident_id=incident.id, sent="firing"))
    assert (await api.call("DELETE", path_of(api, "viewer"))).status == 200
    async with api.platform.sessions() as session:
        query = select(Notification.account_id, Notification.status).order_by(Notification.id)
        assert (await session.execute(query)).all() == [
            (acme.account.id, "canceled"),
            (acme.account.id, "sent"),
            (other.account.id, "pending"),
            (other.account.id, "sent"),
        ]
        groups = (await session.execute(select(NotificationGroup.id, NotificationGroup.account_id))).all()
        assert [account for _, account in groups] == [other.account.id] * 2
        assert set(await session.scalars(select(NotificationMember.group_id))) == {
            group for group, _ in groups
        }


async def test_links_to_reports_outlive_their_maker_unless_they_are_revoked(api: Api) -> None:
    """A person may create a link without an end before leaving. The removal reports such links, and can revoke them."""
    assert api.platform.acme.site is not None
    shares = f"/v1/analytics/sites/{api.platform.acme.site.id}/shares"
    made = [
        (await api.call("POST", shares, {"name": "x"}, by=person)).data for person in ("deployer", "admin")
    ]
    states = []
    for person, query in (("deployer", ""), ("admin", "?revoke_report_links=true")):
        removed = await api.call("DELETE", f"{path_of(api, person)}{query}")
        assert (removed.status, removed.data["report_links"]) == (200, 1)
        states.append({each["id"]: each["state"] for each in await api.read(shares)})
    first, second = (each["id"] for each in made)
    assert states == [{first: "live", second: "live"}, {first: "live", second: "revoked"}]


async def test_access_to_other_accounts_stays(api: Api) -> None:
    """Expired tokens gave no access, so they are not counted."""
    platform = api.platform
    admin, shop = platform.other.people["admin"], platform.other.projects["shop"]
    roles = [{"project": platform.acme.projects["shop"].public_id, "role": "viewer"}]
    body = {"email": admin.email, "project_roles": roles}
    invited = (await api.call("POST", "/v1/invitations", body)).data
    accepted = {"invitation": invited["secret"]}
    token = (await platform.call("POST", "/v1/invitations/accept", accepted)).data["api_token"]
    past = datetime.now(UTC) - timedelta(seconds=1)
    async with platform.sessions() as session, session.begin():
        await add_token(session, platform.acme, admin, ALL_SCOPES, expires_at=past)
        session.add(ProjectRole(project_id=shop.id, person_id=admin.id, role="viewer"))
    removed = (await api.call("DELETE", f"/v1/people/{admin.public_id}")).data
    assert (removed["project_roles"], removed["tokens"]) == (1, 1)
    assert (await platform.call("GET", "/v1/account", token=token)).problem == (401, "invalid-credential")
    of_other = platform.other.token("admin")
    assert (await platform.call("GET", "/v1/account", token=of_other)).data["slug"] == "other"
    members = await platform.call("GET", f"/v1/projects/{shop.public_id}/members", token=of_other)
    assert admin.public_id in {each["person"]["id"] for each in members.data}


_ROUNDS = 5


@pytest.mark.both_databases
@pytest.mark.parametrize("second", ["DELETE", "PATCH"])
async def test_one_of_two_owners_who_leave_concurrently_stays(api: Api, second: str) -> None:
    platform, account = api.platform, api.platform.acme.account
    of_account = Membership.account_id == account.id
    for number in range(_ROUNDS):
        tokens, paths = [], []
        async with platform.sessions() as session, session.begin():
            await session.execute(update(Membership).where(of_account).values(role="member"))
            for name in "ab":
                email = f"{name}{number}@acme.example"
                owner = await create_person(session, account, name, email, "owner", datetime.now(UTC))
                tokens.append(await add_token(session, platform.acme, owner, ALL_SCOPES))
                paths.append(f"/v1/people/{owner.public_id}")
        body = {"role": "member"} if second == "PATCH" else None
        answers = await asyncio.gather(
            platform.call("DELETE", paths[0], token=tokens[0]),
            platform.call(second, paths[1], body, token=tokens[1]),
        )
        assert sorted(each.status for each in answers) == [200, 409]
        owners = select(func.count()).where(of_account, Membership.role == "owner")
        async with platform.sessions() as session:
            assert (await session.execute(owners)).scalar_one() == 1


@pytest.mark.both_databases
async def test_a_person_who_is_being_removed_gets_no_new_access(api: Api) -> None:
    """Afterwards the person has neither a working token nor a role."""
    platform, account = api.platform, api.platform.acme.account
    shop = platform.acme.projects["shop"].public_id
    people = []
    for number in range(_ROUNDS):
        async with platform.sessions() as session, session.begin():
            email = f"eve{number}@acme.example"
            eve = await create_person(session, account, "Eve", email, "member", datetime.now(UTC))
            token = await add_token(session, platform.acme, eve, ALL_SCOPES)
        people.append(eve.id)
        made = {"name": "x", "scopes": ["account:read"]}
        created, granted, removed = await asyncio.gather(
            platform.call("POST", "/v1/tokens", made, token=token),
            api.call("PUT", f"/v1/projects/{shop}/members/{eve.public_id}", {"role": "viewer"}),
            api.call("DELETE", f"/v1/people/{eve.public_id}"),
        )
        assert removed.status == 200
        assert (created.status, granted.status) in itertools.product((201, 401), (200, 404))
    async with platform.sessions() as session:
        live = select(ApiToken.id).where(ApiToken.person_id.in_(people), ApiToken.revoked_at.is_(None))
        roles = select(ProjectRole.project_id).where(ProjectRole.person_id.in_(people))
        assert (await session.execute(live)).all() == (await session.execute(roles)).all() == []


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("method", "path", "rest"),
    [
        ("POST", "/v1/invitations", b'"email": "x@new.example"}'),
        ("PATCH", "/v1/people/{viewer}", b'"role": "admin"}'),
        ("PATCH", "/v1/account", b'"name": "Mine"}'),
        ("POST", "/v1/tokens", b'"name": "x", "scopes": ["account:read"]}'),
        ("PUT", "/v1/projects/{shop}/members/{viewer}", b'"role": "maintainer"}'),
    ],
)
async def test_person_removed_while_the_body_arrives_grants_no_access(
    api: Api, method: str, path: str, rest: bytes
) -> None:
    platform = api.platform
    people, shop = platform.acme.people, platform.acme.projects["shop"]
    async with platform.sessions() as session, session.begin():
        token = await add_token(session, platform.acme, people["admin"], ALL_SCOPES)
    address = path.format(viewer=people["viewer"].public_id, shop=shop.public_id)

    async def remove() -> None:
        assert (await api.call("DELETE", path_of(api, "admin"))).status == 200

    refused = await send_slowly(platform, method, address, token, remove, rest)
    assert refused.problem == (401, "invalid-credential")
    async with platform.sessions() as session:
        by_admin = select(AuditEntry).where(AuditEntry.person_id == people["admin"].id)
        assert (await session.execute(by_admin)).all() == []
