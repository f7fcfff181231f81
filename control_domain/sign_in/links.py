"""One-time links with which a person sets a first or new password and is then signed in."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.members import Member
from control_domain.accounts.operations import Caller
from control_domain.accounts.rights import require_account_right, require_all_scopes
from control_domain.accounts.roles import AccountRight, has_account_right
from control_domain.accounts.tokens import revoke_tokens_of
from control_domain.audit import Actor, record_audit_entry
from control_domain.sealing import SealingKeys
from control_domain.sign_in.attempt_limits import count_attempt, limits_of_secret
from control_domain.sign_in.check_credentials import check_code
from control_domain.sign_in.identities import remove_identities
from control_domain.sign_in.memberships import choose_account, list_accounts_of
from control_domain.sign_in.password_hashes import PasswordHasher
from control_domain.sign_in.password_rules import check_password
from control_domain.sign_in.passwords import set_password_hash
from control_domain.sign_in.record import record_of_person
from control_domain.sign_in.second_factor import remove_second_factor
from control_domain.sign_in.sessions import SignInOrigin, revoke_sessions
from control_domain.sign_in.sign_in import sign_in
from control_domain.tables.accounts import Person
from control_domain.tables.sign_in import SignInLink
from pipeline_contracts.credentials import CredentialKind, digest_credential, is_well_formed, make_credential
from pipeline_contracts.errors import Conflict, NotFound
from pipeline_contracts.times import format_time

LINK_LIFETIME = timedelta(hours=24)
# One text for all causes: it must not tell a guesser which links were valid.
_UNUSABLE = "This link is not known, has expired, or was used already. Ask for another one."


@dataclass(frozen=True, slots=True)
class CreatedLink:
    """A new link: its secret, which is not stored, and when it expires."""

    secret: str
    expires_at: datetime


def make_sign_in_url(address: str, secret: str) -> str:
    """Return the URL of the sign-in page with the secret of a link. Servers do not see what follows `#`.

    The kind of the secret is left out, so that the URL fits into a line of 80 characters.
    """
    return f"{address}/sign-in#link={secret.removeprefix(CredentialKind.SIGN_IN_LINK)}"


async def create_link(
    session: AsyncSession, person: Person, created_by_id: int | None, now: datetime
) -> CreatedLink:
    """Create a link for a person, which replaces the former link. `created_by_id` is None for an operator of the
    machine."""
    secret = make_credential(CredentialKind.SIGN_IN_LINK)
    await revoke_links(session, person.id)
    link = SignInLink(
        person_id=person.id,
        digest=digest_credential(secret),
        created_by_id=created_by_id,
        created_at=now,
        expires_at=now + LINK_LIFETIME,
    )
    session.add(link)
    await session.flush()
    return CreatedLink(secret, link.expires_at)


async def create_link_for_member(
    session: AsyncSession, caller: Caller, member: Member, actor: Actor, now: datetime
) -> CreatedLink:
    """Create a link for a member of the caller's locked account. The holder of the link can act as the person.

    Raises `NotAllowed` if the caller is a member, or is an admin and the person an owner; `MissingScope` if the
    caller's token does not have all scopes; and `Conflict` for the caller's own person, and if the person is also a
    member of an account in which the caller may not create such a link.
    """
    if member.person.id == caller.person.id:
        # The link would let the caller replace the password without knowing it.
        raise Conflict(
            "You cannot make a sign-in link for yourself: change your password in the dashboard, under Settings, Your "
            "sign-in. If you have forgotten it, another owner or admin makes the link, or an operator of the "
            "installation."
        )
    require_account_right(caller, AccountRight.OWN if member.role == "owner" else AccountRight.MANAGE)
    require_all_scopes(caller, "the person who signs in with the link gets all of them")
    if not await _may_act_for(session, caller.person.id, member.person.id):
        raise Conflict(
            f"{member.person.email} is also in other accounts, for which the link would work too. Ask an "
            "operator of the installation for it."
        )
    link = await create_link(session, member.person, caller.person.id, now)
    details = {"expires_at": format_time(link.expires_at)}
    subject = f"person {member.person.public_id}"
    record_audit_entry(session, actor, member.account.id, "sign-in-link.create", subject, now, details)
    return link


async def _may_act_for(session: AsyncSession, creator_id: int, person_id: int) -> bool:
    """Return True if the creator of a link manages the person in every account that the person is in."""
    roles = {each.account.id: each.role for each in await list_accounts_of(session, creator_id)}
    return all(
        has_account_right(
            roles[each.account.id], AccountRight.OWN if each.role == "owner" else AccountRight.MANAGE
        )
        if each.account.id in roles
        else False
        for each in await list_accounts_of(session, person_id)
    )


async def revoke_links(session: AsyncSession, person_id: int) -> None:
    """Delete the links of a person that were not used."""
    await session.execute(
        delete(SignInLink).where(SignInLink.person_id == person_id, SignInLink.used_at.is_(None))
    )


async def use_link(
    session: AsyncSession,
    hasher: PasswordHasher,
    keys: SealingKeys,
    secret: str,
    password: str,
    code: str | None,
    origin: SignInOrigin,
    actor: Actor,
    now: datetime,
    *,
    revokes_tokens: bool = False,
) -> str:
    """Set the password of the person of a link, end the person's other sessions, and return the secret of a new
    session. With `revokes_tokens`, the person's API tokens end too, in all accounts.

    The link works once. A link made by an operator of the machine also removes the second factor and the identities at
    providers; with any other link, the person enters a code. Commits before the password is hashed. Raises `NotFound`
    for a link that cannot be used, `InvalidInput`, `TooManyRequests`, and what `check_code` and `choose_account`
    raise.
    """
    link, person = await find_link(session, secret, now)
    normalized = check_password(password, person.email, person.name)
    by_operator = link.created_by_id is None
    await count_attempt(session, limits_of_secret(f"link {link.id}"), now)
    await session.commit()
    # Hash before the code is checked: a code works once, and must be used up in the same transaction as the link.
    hash = await hasher.hash(normalized)
    if not by_operator:
        await check_code(session, keys, person, code, origin.network, now)
    used = await session.execute(
        update(SignInLink)
        .where(SignInLink.id == link.id, SignInLink.used_at.is_(None), SignInLink.expires_at > now)
        .values(used_at=now)
        .returning(SignInLink.id)
        .execution_options(synchronize_session=False)
    )
    if used.first() is None:
        raise NotFound(_UNUSABLE)
    if link.created_by_id is not None and not await _may_act_for(session, link.created_by_id, person.id):
        # The person has joined another account since then, or the creator has lost the role.
        raise NotFound(_UNUSABLE)
    account = await choose_account(session, person)
    removed = by_operator and await remove_second_factor(session, person.id)
    removed_identities = await remove_identities(session, person.id) if by_operator else 0
    await set_password_hash(session, person.id, hash, now)
    ended = await revoke_sessions(session, person.id, now)
    actor = replace(actor, person_id=person.id)
    revoked = await revoke_tokens_of(session, person, actor, now) if revokes_tokens else 0
    details = {
        "by": "link",
        "link_made_by": await _find_maker(session, link),
        "ended_sessions": ended,
        "revoked_tokens": revoked,
        "removed_second_factor": removed,
        "removed_identities": removed_identities,
    }
    await record_of_person(session, actor, person, "password.set", now, details)
    return await sign_in(session, person, account, "link", origin, actor, now)


async def _find_maker(session: AsyncSession, link: SignInLink) -> str | None:
    """Return the ID of the person who made the link; None for an operator of the machine."""
    maker = None if link.created_by_id is None else await session.get(Person, link.created_by_id)
    return None if maker is None else maker.public_id


async def find_link(session: AsyncSession, secret: str, now: datetime) -> tuple[SignInLink, Person]:
    """Return the link with this secret and its person. Raises `NotFound`."""
    if not secret.startswith(CredentialKind.SIGN_IN_LINK):
        secret = f"{CredentialKind.SIGN_IN_LINK.value}{secret}"
    if not is_well_formed(secret, CredentialKind.SIGN_IN_LINK):
        raise NotFound(_UNUSABLE)
    query = (
        select(SignInLink, Person)
        .join(Person, Person.id == SignInLink.person_id)
        .where(
            SignInLink.digest == digest_credential(secret),
            SignInLink.used_at.is_(None),
            SignInLink.expires_at > now,
        )
    )
    row = (await session.execute(query)).one_or_none()
    if row is None:
        raise NotFound(_UNUSABLE)
    return row[0], row[1]
