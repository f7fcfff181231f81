"""The audit log of the account: `/v1/audit`."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from control_api.operations.access import At, at_account
from control_api.operations.pages import PageOf, PageQuery, read_pages
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.audit_log import (
    AuditEntryDocument,
    AuditFilter,
    describe_audit_entry,
    list_audit_entries,
)
from control_domain.accounts.roles import AccountRight
from control_domain.tables.accounts import Account

operations = OperationRouter("Account")

_Manage = Annotated[At[Account], at_account("account:read", AccountRight.MANAGE)]
_Time = Annotated[datetime, Meta(tz=True)]


class AuditQuery(PageQuery, kw_only=True):
    """Filters of audit entries."""

    subject: Annotated[
        Annotated[str, Meta(max_length=100)] | None,
        Meta(
            description="Only changes of this subject: a kind and an ID as in entries, or the string "
            "ID of an account, project, environment or person alone.",
            examples=["site 4"],
        ),
    ] = None
    person: Annotated[
        Annotated[str, Meta(max_length=40)] | None,
        Meta(description="Only changes by this person, by string ID or number."),
    ] = None
    action: Annotated[
        Annotated[str, Meta(max_length=60)] | None,
        Meta(description="Only changes with this action.", examples=["variables.update"]),
    ] = None
    since: Annotated[_Time | None, Meta(description="Only changes at this time or later.")] = None
    until: Annotated[_Time | None, Meta(description="Only changes before this time.")] = None


@operations.get("/v1/audit")
async def list_audit(
    at: _Manage, params: Annotated[AuditQuery, query(AuditQuery)]
) -> PageOf[AuditEntryDocument]:
    """List the changes in the account.

    The audit entries, the newest first: who made each change, when, and what was changed. Changes that the operator of
    the installation made to all accounts are not listed.
    """
    wanted = AuditFilter(params.subject, params.person, params.action, params.since, params.until)
    pages = read_pages(at, params, f"audit entries {wanted}")
    found, has_more = await list_audit_entries(at.session, at.account, wanted, pages.page)
    return pages.answer(
        [describe_audit_entry(each) for each in found], found[-1].entry.id if has_more else None
    )
