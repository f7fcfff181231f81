"""API tokens as an operator handles them: made, listed, revoked."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select

from control_domain.accounts.describe import describe_token
from control_domain.accounts.members import lock_member
from control_domain.accounts.operations import create_api_token, revoke_api_token
from control_domain.audit import make_operator, record_audit_entry
from control_domain.projects.resolve import resolve_account
from control_domain.refusals import Refused
from control_domain.slugs import read_name
from control_domain.tables.accounts import Account, ApiToken, Person
from operator_actions.actions.engines import Action, Engines, Params, read_id
from operator_actions.actions.read_account import read_expiry, read_scopes
from pipeline_contracts.credentials import digest_credential

_SEEN = (
    select(ApiToken, Account, Person)
    .join(Account, Account.id == ApiToken.account_id)
    .join(Person, Person.id == ApiToken.person_id)
)


async def _list_tokens(engines: Engines, params: Params, now: datetime) -> Sequence[dict[str, Any]]:
    """The tokens of the account, or all, newest first; never a secret. `params`: account_id."""
    called = params.get("account_id")
    async with engines.sessions() as session:
        query = _SEEN.order_by(ApiToken.id.desc())
        if called is not None:
            account = await resolve_account(session, called)
            query = query.where(ApiToken.account_id == account.id)
        return [describe_token(*row, now) for row in await session.execute(query)]


async def _create_token(engines: Engines, params: Params, now: datetime) -> dict[str, Any]:
    """A new token of a member; its secret, `api_token`, is told here and never again. `params`: person, account_id,
    scopes, name, expires_seconds (never)."""
    scopes, expires_at = read_scopes(params), read_expiry(params, now)
    name = f"made {now:%Y-%m-%d}" if params.get("name") is None else read_name(params)
    async with engines.sessions() as session, session.begin():
        account = await resolve_account(session, params.get("account_id"))
        member = await lock_member(session, account, str(params["person"]))
        secret = await create_api_token(session, account, member.person, name, scopes, now, expires_at)
        made = select(ApiToken).where(ApiToken.digest == digest_credential(secret))
        token = (await session.execute(made)).scalar_one()
        told = describe_token(token, account, member.person, now)
        details = {
            "person": member.person.public_id,
            "name": name,
            "scopes": scopes,
            "expires_at": told["expires_at"],
        }
        record_audit_entry(
            session, make_operator(params), account.id, "token.create", f"token {token.id}", now, details
        )
    return {**told, "api_token": secret}


async def _revoke_token(engines: Engines, params: Params, now: datetime) -> dict[str, Any]:
    """Let a token work no more, from its next request on; again changes nothing. `params`: id."""
    number = read_id(params, "id")
    async with engines.sessions() as session, session.begin():
        is_revoked = await revoke_api_token(session, number, now)
        row = (await session.execute(_SEEN.where(ApiToken.id == number))).one_or_none()
        if row is None:
            raise Refused(f"There is no token {number}: `pharos token list` shows all.")
        token, account, person = row
        if is_revoked:
            details = {"person": person.public_id, "name": token.name}
            record_audit_entry(
                session, make_operator(params), account.id, "token.revoke", f"token {number}", now, details
            )
        return {**describe_token(token, account, person, now), "revoked": True}


ACTIONS: Mapping[str, Action] = {
    "tokens/list": _list_tokens,
    "tokens/create": _create_token,
    "tokens/revoke": _revoke_token,
}
