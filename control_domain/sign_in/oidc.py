"""Finds the person whom an OpenID Connect provider has identified. Identification alone does not create an account."""

from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor
from control_domain.invitations.accept import join_by_invitation
from control_domain.sign_in.identities import bind_identity
from control_domain.sign_in.memberships import list_accounts_of
from control_domain.sign_in.second_factor import has_second_factor
from control_domain.slugs import is_name
from control_domain.tables.accounts import Account, Person
from control_domain.tables.invitations import Invitation
from control_domain.tables.sign_in import OidcIdentity
from pipeline_contracts.errors import Conflict, NotFound


@dataclass(frozen=True, slots=True)
class OidcPerson:
    """A person as identified by the provider."""

    issuer: str
    subject: str
    email: str
    """The address in lower case; empty if unknown."""
    is_email_verified: bool
    name: str


class UnknownPerson(Exception):
    """The identified person may not sign in here. `reason` is for the sign-in page."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


async def find_oidc_person(
    session: AsyncSession, known: OidcPerson, signed_in: int | None, actor: Actor, now: datetime
) -> Person:
    """Return the person to whom this identity is bound, or else the person with its verified e-mail address.

    The person is in an account, or has a pending invitation, which is accepted. `signed_in`: the person who is already
    signed in in this browser. A person with a second factor must be signed in for the first sign-in with the provider.
    Raises `UnknownPerson`.
    """
    identity = OidcIdentity.issuer == known.issuer, OidcIdentity.subject == known.subject
    query = select(Person).join(OidcIdentity, OidcIdentity.person_id == Person.id).where(*identity)
    person = (await session.execute(query)).scalar_one_or_none()
    if person is not None:
        if not await list_accounts_of(session, person.id):
            # The person was removed and may be invited again, if the provider still has the same verified address.
            if not known.is_email_verified or known.email != person.email:
                raise UnknownPerson("oidc-unknown")
            await _join(session, known, actor, now)
        return person
    if not known.is_email_verified or not known.email.isprintable() or not known.email:
        raise UnknownPerson("oidc-unverified")
    by_email = select(Person).where(Person.email == known.email)
    person = (await session.execute(by_email)).scalar_one_or_none()
    if person is not None and person.id != signed_in and await has_second_factor(session, person.id):
        raise UnknownPerson("oidc-second-factor")
    if person is None or not await list_accounts_of(session, person.id):
        person = await _join(session, known, actor, now)
    own = replace(actor, person_id=person.id)
    if not await bind_identity(session, person, known.issuer, known.subject, own, now):
        # Another sign-in of this person may have bound it at the same moment.
        bound = (await session.execute(query)).scalar_one_or_none()
        if bound is None or bound.id != person.id:
            # The address belonged to another identity at the provider before: providers may reassign addresses.
            raise UnknownPerson("oidc-changed")
    return person


async def _join(session: AsyncSession, known: OidcPerson, actor: Actor, now: datetime) -> Person:
    """Accept the newest pending invitation to the address. Raises `UnknownPerson`."""
    # Account scope: the invitation names the account.
    query = (
        select(Invitation, Account)
        .join(Account, Account.id == Invitation.account_id)
        .where(
            Invitation.email == known.email,
            Invitation.accepted_at.is_(None),
            Invitation.revoked_at.is_(None),
            Invitation.expires_at > now,
        )
        .order_by(Invitation.id.desc())
    )
    name = known.name.strip() if is_name(known.name.strip()) else known.email[:100]
    for invitation, account in (await session.execute(query)).all():
        try:
            return (await join_by_invitation(session, invitation, account, name, actor, now)).person
        except (Conflict, NotFound):
            continue
    raise UnknownPerson("oidc-unknown")
