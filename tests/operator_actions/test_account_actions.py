"""Accounts and their limits as an operator handles them, by the names of the actions, on both databases."""

from typing import Any

import pytest

from control_domain.database.engine import Sessions
from control_domain.tables.accounts import Account, Person
from control_domain.tables.audit import AuditEntry
from operator_actions.actions.engines import Engines
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.rate_limits import RateLimit
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from storage_backends.key_directory.interface import KeyEntry
from storage_backends.key_directory.redis import open_redis_key_directory
from tests.support.accounts import make_acme
from tests.support.engines import or_skip
from tests.support.operator import NOW, Operator, make_operator
from tests.support.redis_server import running_redis


@pytest.fixture
def operator(sessions: Sessions) -> Operator:
    return make_operator(sessions)


async def test_an_account_is_made_with_its_owner(operator: Operator) -> None:
    told = await operator.act(
        "accounts/create", name=" Blåbær Ltd ", owner_name="Ada", owner_email=" Ada@Example.com "
    )
    assert told == {
        "id": told["id"],
        "name": "Blåbær Ltd",
        "slug": "blabaer-ltd",
        "number": told["number"],
        "plan": "self-hosted",
        "limits": {"ingest_events_per_second": 5000.0, "ingest_burst": 50_000},
        "created_at": "2026-11-20T12:00:00.000Z",
        "owner": {"id": told["owner"]["id"], "name": "Ada", "email": "ada@example.com"},
    }
    (member,) = await operator.act("people/list")
    assert (member["email"], member["role"], member["account"]["slug"]) == (
        "ada@example.com",
        "owner",
        "blabaer-ltd",
    )
    (entry,) = await operator.act("audit/list")
    assert (entry["action"], entry["subject"]) == ("account.create", f"account {told['id']}")
    assert (entry["source"], entry["account_id"], entry["person"]) == ("operator ada", told["id"], None)
    assert entry["details"] == {"slug": "blabaer-ltd", "owner": told["owner"]["id"]}


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"name": ""}, "A name has 1 to 100 printable characters: give another."),
        ({"name": "a\x1b[31m"}, "A name has 1 to 100 printable characters"),
        ({"owner_name": "x" * 101}, "A name has 1 to 100 printable characters"),
        ({"name": "日本"}, "No slug can be made from '日本': give one of 1 to 60 of a-z"),
        ({"name": "2026"}, "No slug can be made from '2026'"),
        ({"slug": "My Shop"}, "'My Shop' is no slug: give one of 1 to 60 of a-z"),
        ({"slug": "a--b"}, "'a--b' is no slug"),
        ({"slug": "a" * 61}, "is no slug"),
        ({"slug": "42"}, "'42' is no slug"),
        ({"owner_email": "ada"}, "'ada' is no e-mail address: write one like ada@example.com."),
        ({"owner_email": "a da@example.com"}, "is no e-mail address"),
        ({"owner_email": "ada@example.com, eve@example.com"}, "is no e-mail address"),
        ({"owner_email": f"{'a' * 250}@b.example"}, "is no e-mail address"),
        ({"owner_email": None}, "'' is no e-mail address"),
    ],
    ids=str,
)
async def test_invalid_accounts_are_refused(operator: Operator, wanted: dict[str, Any], told: str) -> None:
    full = {"name": "Beta", "owner_name": "Ada", "owner_email": "ada@example.com", **wanted}
    assert told in await operator.expect_refusal("accounts/create", **full)
    assert [await operator.count(table) for table in (Account, Person, AuditEntry)] == [0, 0, 0]


@pytest.mark.both_databases
async def test_slugs_of_accounts_are_unique(operator: Operator) -> None:
    await operator.add_account("beta")
    told = await operator.expect_refusal(
        "accounts/create", name="Beta", owner_name="Eve", owner_email="eve@example.com"
    )
    assert told == "There is an account of the slug 'beta' already: choose another with --slug."
    assert [await operator.count(table) for table in (Account, Person, AuditEntry)] == [1, 1, 1]


@pytest.mark.both_databases
async def test_a_person_known_from_another_account_keeps_the_name(operator: Operator) -> None:
    first = await operator.add_account("first")
    told = await operator.act(
        "accounts/create", name="Second", owner_name="Another", owner_email="OWNER@example.com"
    )
    assert told["owner"] == first["owner"]
    assert told["warning"] == "owner@example.com is known as Olga Owner from another account, and stays so."
    assert await operator.count(Person) == 1
    assert [one["account"]["slug"] for one in await operator.act("people/list")] == ["first", "second"]


@pytest.mark.both_databases
async def test_accounts_are_listed_and_shown(operator: Operator) -> None:
    beta = await operator.add_account("beta")
    shown = await operator.act("accounts/show")
    assert shown["id"] == beta["id"]
    async with operator.engines.sessions() as session, session.begin():
        acme = await make_acme(session, NOW)
    listed = await operator.act("accounts/list")
    assert [(one["slug"], one["people_count"], one["project_count"]) for one in listed] == [
        ("beta", 1, 0),
        ("acme", 0, 1),
    ]
    for called in (str(acme.account.id), acme.account.public_id, "acme"):
        shown = await operator.act("accounts/show", id=called)
        assert shown["projects"] == [{"id": acme.project.public_id, "name": "Shop", "slug": "shop"}]
        assert shown["people"] == []
        assert shown["limits"] == {"ingest_events_per_second": 10.0, "ingest_burst": 20}
    told = await operator.expect_refusal("accounts/show", id="nobody")
    assert told == "There is no account nobody; `pharos account list` shows all."
    assert "There are several accounts: name one by its ID" in await operator.expect_refusal("accounts/show")


async def test_a_limit_is_published_to_the_edges_at_once(operator: Operator) -> None:
    """Of every key and site of the account, and of no other."""
    async with operator.engines.sessions() as session, session.begin():
        acme = await make_acme(session, NOW)
    key = await operator.objects.add_ingest_key()
    heartbeat = await operator.objects.add_heartbeat()
    queue = await operator.objects.add_queue()
    site = await operator.objects.add_site("shop.example", "https://shop.example")
    beta = await operator.add_account("beta")
    other_project = await operator.act("projects/create", name="Other", account_id="beta")
    other = await operator.objects.add_site("o.example", "https://o.example", project=other_project["id"])
    gone = await operator.objects.add_ingest_key("production")
    await operator.objects.revoke_ingest_key(gone.id)

    told = await operator.act("accounts/limit", id="acme", rate=0.5, burst=7)
    assert told["limits"] == {"ingest_events_per_second": 0.5, "ingest_burst": 7}
    assert "warning" not in told
    secrets = (key.secret, *heartbeat.secrets, *queue.secrets, site.public_id)
    for secret in secrets:
        entry = await operator.engines.directory.find(digest_credential(secret))
        assert entry is not None
        assert (entry.limit, entry.account_id) == (RateLimit(0.5, 7), acme.account.public_id)
    entry = await operator.engines.directory.find(digest_credential(other.public_id))
    assert entry is not None and entry.limit == RateLimit(5000.0, 50_000)
    assert entry.account_id == beta["id"]
    assert await operator.engines.directory.find(digest_credential(gone.secret)) is None
    (logged,) = await operator.act("audit/list", subject=acme.account.public_id)
    assert (logged["action"], logged["details"]) == (
        "account.limit",
        {"from": {"rate": 10.0, "burst": 20}, "to": {"rate": 0.5, "burst": 7}},
    )


@pytest.mark.parametrize(
    ("rate", "burst", "told"),
    [
        (0, 5, "A rate is 0.001 to 1,000,000,000 events a second: give another."),
        (-1, 5, "A rate is"),
        ("nan", 5, "A rate is"),
        ("inf", 5, "A rate is"),
        (1, 0, "A burst is 1 to 2,147,483,647 events at once: give another."),
        (1, 2**31, "A burst is"),
    ],
)
async def test_invalid_limits_are_refused(operator: Operator, rate: Any, burst: int, told: str) -> None:
    await operator.add_account("beta")
    assert told in await operator.expect_refusal("accounts/limit", id="beta", rate=rate, burst=burst)
    assert (await operator.act("accounts/show"))["limits"]["ingest_burst"] == 50_000


class RevokedMeanwhile(InProcessKeyDirectory):
    """Somebody revokes a key after it was read as a live one, and before it is published again."""

    operator: Operator
    key_id: int | None = None

    async def publish(self, entry: KeyEntry) -> None:
        if self.key_id is not None:
            number, self.key_id = self.key_id, None
            await self.operator.objects.revoke_ingest_key(number)
        await super().publish(entry)


@pytest.mark.both_databases
async def test_a_key_revoked_meanwhile_is_not_published_again(sessions: Sessions) -> None:
    directory = RevokedMeanwhile()
    directory.operator = operator = Operator(Engines(sessions, directory))
    async with sessions() as session, session.begin():
        await make_acme(session, NOW)
    key = await operator.objects.add_ingest_key()
    directory.key_id = key.id
    await operator.act("accounts/limit", id="acme", rate=1, burst=1)
    assert directory.key_id is None
    assert await directory.find(digest_credential(key.secret)) is None


async def test_an_unreachable_key_directory_is_a_warning(
    operator: Operator, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async with operator.engines.sessions() as session, session.begin():
        await make_acme(session, NOW)
    await operator.objects.add_ingest_key()
    with or_skip(running_redis(tmp_path_factory.mktemp("away"))) as server:
        directory = await open_redis_key_directory(server.url, follow=False)
        server.stop()
        away = Operator(Engines(operator.engines.sessions, directory))
        told = await away.act("accounts/limit", id="acme", rate=3, burst=4)
        await directory.close()
    assert "The edges could not be informed" in told["warning"]
    assert (await operator.act("accounts/show"))["limits"]["ingest_burst"] == 4
