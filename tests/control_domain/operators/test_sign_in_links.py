"""Sign-in links that the operator of the machine makes, and the first one."""

from datetime import UTC, datetime

import pytest

from control_domain.accounts.operations import create_account, create_person
from control_domain.audit import Actor, list_newest_entries
from control_domain.database.engine import Sessions
from control_domain.operators.sign_in_links import (
    CreatedSignInLink,
    create_first_link,
    create_sign_in_link,
    has_nobody_signed_in,
)
from control_domain.sign_in.passwords import set_password_hash
from control_domain.tables.accounts import Person
from pipeline_contracts.credentials import CredentialKind, is_well_formed
from pipeline_contracts.errors import Conflict, NotFound
from pipeline_contracts.rate_limits import RateLimit

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
ACTOR = Actor("operator ada")


async def _create(sessions: Sessions, email: str | None) -> CreatedSignInLink:
    async with sessions() as session, session.begin():
        return await create_sign_in_link(session, email, ACTOR, NOW)


async def test_links(sessions: Sessions) -> None:
    assert await create_first_link(sessions, ACTOR, NOW) is None
    async with sessions() as session, session.begin():
        acme = await create_account(session, "Acme", "acme", RateLimit(1, 1), NOW)
        olga = await create_person(session, acme, "Olga", "olga@example.com", "owner", NOW)
        await create_person(session, acme, "Max", "max@example.com", "member", NOW)
        session.add(Person(public_id="usr_1", name="Al", email="al@example.com", created_at=NOW))
    first = await create_first_link(sessions, ACTOR, NOW)
    assert first is not None and is_well_formed(first, CredentialKind.SIGN_IN_LINK)
    made = await _create(sessions, None)
    assert (made["person"]["email"], made["expires_at"]) == ("olga@example.com", "2026-05-05T12:00:00.000Z")
    assert (await _create(sessions, " MAX@example.com"))["person"]["name"] == "Max"
    async with sessions() as session:
        entry = (await list_newest_entries(session, 1))[0]
    assert (entry["action"], entry["source"]) == ("sign-in-link.create", "operator ada")
    for email, text in (("eve@x.example", "Nobody has the address"), ("al@example.com", "of no account")):
        with pytest.raises(NotFound, match=text):
            await _create(sessions, email)
    async with sessions() as session, session.begin():
        await create_person(session, acme, "Eva", "eva@example.com", "owner", NOW)
    with pytest.raises(Conflict, match="Name one of them: olga@example.com, eva@example.com"):
        await _create(sessions, None)
    # There is no first link once a person has a password.
    assert await has_nobody_signed_in(sessions)
    async with sessions() as session, session.begin():
        await set_password_hash(session, olga.id, "x", NOW)
    assert not await has_nobody_signed_in(sessions)
    assert await create_first_link(sessions, ACTOR, NOW) is None
