"""API tokens of people: `/v1/tokens`."""

from datetime import datetime, timedelta
from typing import Annotated

from msgspec import Meta

from control_api.management.confirmed_body import WithOwnPassword, confirmed_body
from control_api.operations.access import At, at_account, at_account_object
from control_api.operations.pages import PageOf, PageQuery, read_pages
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts import tokens
from control_domain.accounts.roles import Scope
from control_domain.accounts.tokens import (
    CreatedApiToken,
    TokenDocument,
    TokenWithPerson,
    describe_api_token,
    find_token,
)
from control_domain.tables.accounts import Account
from pipeline_contracts.errors import Conflict

operations = OperationRouter("Account")

_List = Annotated[At[Account], at_account("account:read")]
_create = at_account("account:write")
_Create = Annotated[At[Account], _create]
_Read = Annotated[At[TokenWithPerson], at_account_object(find_token, "token", "account:read")]
_Revoke = Annotated[At[TokenWithPerson], at_account_object(find_token, "token", "account:write")]


class TokensQuery(PageQuery, kw_only=True):
    """Filters of API tokens."""

    person: Annotated[
        Annotated[str, Meta(max_length=40)] | None,
        Meta(description="Only tokens of this person, by string ID or number."),
    ] = None


class CreateToken(WithOwnPassword, kw_only=True):
    """A new API token. Without `expires_at` and `expires_in`, it expires when the calling token does, if ever."""

    name: Annotated[str, Meta(min_length=1, max_length=100, description="1 to 100 printable characters.")]
    scopes: Annotated[
        list[Scope],
        Meta(
            min_length=1,
            max_length=100,
            description="The scopes of the token. The calling token must have all of them.",
        ),
    ]
    expires_at: (
        Annotated[datetime, Meta(tz=True, description="When the token stops working, within 10 years.")]
        | None
    ) = None
    expires_in: (
        Annotated[
            int, Meta(ge=60, le=3650 * 86_400, description="Seconds from now, in place of `expires_at`.")
        ]
        | None
    ) = None


@operations.get("/v1/tokens")
async def list_tokens(at: _List, params: Annotated[TokensQuery, query(TokensQuery)]) -> PageOf[TokenDocument]:
    """List API tokens.

    Your own tokens, the newest first; for owners and admins, the tokens of everybody in the account. Secrets are not
    listed. Revoked and expired tokens are listed too.
    """
    pages = read_pages(at, params, f"tokens {params.person or ''}")
    found, has_more = await tokens.list_tokens(at.session, at.caller, params.person, pages.page)
    return pages.answer(
        [describe_api_token(each, at.caller, at.now) for each in found],
        found[-1].token.id if has_more else None,
    )


@operations.post("/v1/tokens", status=201, problems=[Conflict], secret=True)
async def create_token(
    at: _Create, body: Annotated[CreateToken, confirmed_body(_create, CreateToken)]
) -> CreatedApiToken:
    """Create an API token.

    The token is yours, in this account. It has no scope that the calling token lacks (403), and does not outlive it.
    With a session, the body must have your password, because the token outlives the session. The response has the
    secret, which is not shown again. 409 if you have 1,000 live tokens.
    """
    await at.lock_rights()
    lifetime = None if body.expires_in is None else timedelta(seconds=body.expires_in)
    token, secret = await tokens.create_token(
        at.session, at.caller, body.name, body.scopes, body.expires_at, lifetime, at.actor, at.now
    )
    found = TokenWithPerson(token, at.caller.person)
    return {**describe_api_token(found, at.caller, at.now), "api_token": secret}


@operations.get("/v1/tokens/{token}")
async def read_token(at: _Read) -> TokenDocument:
    """Read an API token.

    Your own token; for owners and admins, a token of anybody in the account.
    """
    return describe_api_token(at.found, at.caller, at.now)


@operations.delete("/v1/tokens/{token}")
async def revoke_token(at: _Revoke) -> TokenDocument:
    """Revoke an API token.

    Your own token, also the token of this request; for owners and admins, a token of anybody in the account. The token
    is no longer accepted. Tokens that were created with it keep working; the audit log names them.
    """
    await at.lock_rights()
    found = await tokens.revoke_token(at.session, at.found, at.actor, at.now)
    return describe_api_token(found, at.caller, at.now)
