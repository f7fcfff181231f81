"""The identities of the person at OpenID Connect providers: `/v1/me/identities`."""

from typing import Annotated

from control_api.operations.access import At, at_session
from control_api.operations.router import OperationRouter
from control_domain.sign_in.identities import (
    IdentityDocument,
    describe_identity,
    list_identities,
    remove_identity,
)
from control_domain.tables.sign_in import SignInSession
from pipeline_contracts.errors import Conflict, NotFound

operations = OperationRouter("Sign-in")

_Session = Annotated[At[SignInSession], at_session()]


@operations.get("/v1/me/identities")
async def list_own_identities(at: _Session) -> list[IdentityDocument]:
    """List your identities at providers.

    You have one for each OpenID Connect provider with which you have signed in, and can sign in with each.
    """
    return [describe_identity(each) for each in await list_identities(at.session, at.caller.person.id)]


@operations.delete("/v1/me/identities/{identity}", problems=[Conflict, NotFound])
async def remove_own_identity(at: _Session) -> IdentityDocument:
    """Remove one of your identities at providers.

    You can no longer sign in with it. The next sign-in with the provider binds an identity again if the provider has
    verified your address. 409 if you have no password and no other identity.
    """
    found = await remove_identity(at.session, at.caller, at.number("identity"), at.actor, at.now)
    return describe_identity(found)
