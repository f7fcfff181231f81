"""Binds, lists and removes a person's identities at OpenID Connect providers."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, TypedDict

from msgspec import Meta
from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.audit import Actor
from control_domain.database.statements import insert_if_absent
from control_domain.sign_in.passwords import read_password_hash
from control_domain.sign_in.record import record_of_person
from control_domain.tables.accounts import Person
from control_domain.tables.sign_in import OidcIdentity
from pipeline_contracts.errors import Conflict, NotFound
from pipeline_contracts.times import format_time


class IdentityDocument(TypedDict):
    """The identity of the person at a provider."""

    id: int
    issuer: Annotated[str, Meta(description="The address of the provider.")]
    subject: Annotated[str, Meta(description="The provider's own ID of the person.")]
    created_at: Annotated[str, Meta(description="When the person signed in with it for the first time.")]


def describe_identity(identity: OidcIdentity) -> IdentityDocument:
    return {
        "id": identity.id,
        "issuer": identity.issuer,
        "subject": identity.subject,
        "created_at": format_time(identity.created_at),
    }


async def list_identities(session: AsyncSession, person_id: int) -> Sequence[OidcIdentity]:
    """Return the identities of a person, the oldest first."""
    query = select(OidcIdentity).where(OidcIdentity.person_id == person_id).order_by(OidcIdentity.id)
    return (await session.execute(query)).scalars().all()


async def bind_identity(
    session: AsyncSession, person: Person, issuer: str, subject: str, actor: Actor, now: datetime
) -> bool:
    """Bind an identity to a person, with the audit entry. Return False if the person has another identity at this
    provider, or if the identity belongs to another person."""
    values = {"person_id": person.id, "issuer": issuer, "subject": subject, "created_at": now}
    bound = insert_if_absent(session, OidcIdentity, values).returning(OidcIdentity.id)
    if (await session.execute(bound)).first() is None:
        return False
    await record_of_person(session, actor, person, "oidc.bind", now, {"issuer": issuer, "subject": subject})
    return True


async def remove_identity(
    session: AsyncSession, caller: Caller, number: int | None, actor: Actor, now: datetime
) -> OidcIdentity:
    """Remove an identity of the caller. Raises `NotFound`, and `Conflict` if the caller could not sign in any more."""
    identities = await list_identities(session, caller.person.id)
    found = next((each for each in identities if each.id == number), None)
    if found is None:
        raise NotFound("You have no such identity.")
    if len(identities) == 1 and await read_password_hash(session, caller.person.id) is None:
        raise Conflict("You have no password, and could no longer sign in: set a password first.")
    await session.execute(delete(OidcIdentity).where(OidcIdentity.id == found.id))
    details = {"issuer": found.issuer, "subject": found.subject}
    await record_of_person(session, actor, caller.person, "oidc.unbind", now, details)
    return found


async def remove_identities(session: AsyncSession, person_id: int) -> int:
    """Remove all identities of a person. Return their number."""
    removed = await session.execute(
        delete(OidcIdentity).where(OidcIdentity.person_id == person_id).returning(OidcIdentity.id)
    )
    return len(removed.all())
