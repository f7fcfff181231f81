"""Settings of the account: `PATCH /v1/account`. `control_api/routes/accounts.py` reads it."""

from typing import Annotated

from msgspec import Meta, Struct

from control_api.operations.access import At, at_account
from control_api.operations.bodies import json_body
from control_api.operations.router import OperationRouter
from control_domain.accounts.change_account import rename_account
from control_domain.accounts.describe import AccountSummary, summarize_account
from control_domain.accounts.roles import AccountRight
from control_domain.tables.accounts import Account

operations = OperationRouter("Account")

_Manage = Annotated[At[Account], at_account("account:write", AccountRight.MANAGE)]


class UpdateAccount(Struct, kw_only=True):
    """The fields of the account that change."""

    name: (
        Annotated[str, Meta(min_length=1, max_length=100, description="1 to 100 printable characters.")]
        | None
    ) = None


def _settings(document: AccountSummary) -> dict[str, str]:
    return {"name": document["name"]}


@operations.patch("/v1/account", etag=_settings)
async def update_account(
    at: _Manage, body: Annotated[UpdateAccount, json_body(UpdateAccount)]
) -> AccountSummary:
    """Rename the account.

    The slug stays, because commands and documents refer to it.
    """
    await at.lock_rights()
    at.check_if_match({"name": at.account.name})
    if body.name is not None:
        await rename_account(at.session, at.account, body.name, at.actor, at.now)
    return summarize_account(at.account)
