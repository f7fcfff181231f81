"""Pending approvals: `/v1/approvals`."""

from typing import Annotated

from control_api.operations.access import At, at_account
from control_api.operations.pages import PageOf, PageQuery, read_sorted_pages
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.deployments.approvals import ApprovalDocument, list_waiting
from control_domain.tables.accounts import Account

operations = OperationRouter("Deploy")

_Account = Annotated[At[Account], at_account("deploy:read")]


@operations.get("/v1/approvals")
async def list_approvals(
    at: _Account, page: Annotated[PageQuery, query(PageQuery)]
) -> PageOf[ApprovalDocument]:
    """List pending approvals.

    The deployments and changes of variables that wait for a second person in all projects that you may read.
    Deployments come first, each kind from the newest. Approve or reject them with `POST
    /v1/deployments/{build}/approve` and `POST /v1/variable-changes/{change}/approve`.
    """
    pages = read_sorted_pages(at, page, f"approvals for {at.caller.person.public_id}")
    waiting = await list_waiting(at.session, at.sealing_keys, at.caller, pages.limit, pages.after)
    return pages.answer(waiting.items, waiting.last_key)
