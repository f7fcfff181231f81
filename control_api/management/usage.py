"""The objects and the stored data of the account: `/v1/usage`."""

from typing import Annotated

from msgspec import Meta, Struct

from control_api.limits.report_queue import run_queued_report
from control_api.operations.access import At, at_account
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.tables.accounts import Account
from control_domain.usage.inventory import read_inventory
from control_domain.usage.report import MAX_DAYS, UsageDocument, describe_usage, first_day, read_stored
from pipeline_contracts.errors import StorageUnavailable, Unavailable

operations = OperationRouter("Account")

_Read = Annotated[At[Account], at_account("account:read")]


class UsageQuery(Struct, kw_only=True):
    """The days of the usage."""

    days: Annotated[
        int, Meta(ge=1, le=MAX_DAYS, description="The number of days to list; the last day is today.")
    ] = 30


@operations.get("/v1/usage")
async def read_usage(at: _Read, params: Annotated[UsageQuery, query(UsageQuery)]) -> UsageDocument:
    """Read the usage of the account.

    The numbers of objects, and the stored data of each of the last days, in total, by environment and by site. 429 if
    too many reports of the account wait, 503 if the column store does not answer.
    """
    inventory = await read_inventory(at.session, at.caller)
    await at.end_transaction()
    since = first_day(params.days, at.now)
    store = at.column_store
    try:
        stored = await run_queued_report(
            at.request, at.account.id, lambda: read_stored(store, inventory, since)
        )
    except StorageUnavailable as error:
        raise Unavailable("The column store does not answer now.") from error
    return describe_usage(inventory, stored, since, at.now.date())
