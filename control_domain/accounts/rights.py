"""The rights of a caller in the account."""

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import SCOPES, AccountRight, has_account_right
from pipeline_contracts.errors import MissingScope, NotAllowed

_WHO = {AccountRight.MANAGE: "an owner or admin", AccountRight.OWN: "an owner"}


def require_account_right(caller: Caller, right: AccountRight) -> None:
    """Raise `NotAllowed` unless the caller has the right."""
    if not has_account_right(caller.role, right):
        raise NotAllowed(
            f"Only {_WHO[right]} of the account may do this, and {caller.person.name} is {caller.role}."
        )


def require_all_scopes(caller: Caller, why: str) -> None:
    """Raise `MissingScope` unless the caller's token has all scopes. A session always has all of them."""
    lacking = [scope for scope in SCOPES if scope not in caller.scopes]
    if lacking:
        raise MissingScope(f"The token lacks the scope {lacking[0]}, and this needs all of them: {why}.")
