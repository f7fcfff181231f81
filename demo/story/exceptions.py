"""Applies people's decisions about exceptions of the demo shop: one is resolved, one is ignored, one is assigned."""

from demo.api_client import ApiClient
from demo.ledger import Ledger
from demo.story.people import client_of
from demo.story.releases import INGRID, JONAS

_DECISIONS = {
    "KeyError": {"status": "resolved"},
    "ConnectionResetError": {"status": "ignored"},
    "OperationalError": {},
    "PaymentDeclined": {},
}
_ASSIGNED = {"OperationalError": INGRID, "PaymentDeclined": JONAS}
_RANGE = "14d"


async def decide_exceptions(owner: ApiClient, ledger: Ledger, environment_id: str) -> bool:
    """Apply the decisions to groups that are stored already; return True if all groups are stored."""
    ingrid = client_of(owner, ledger, INGRID)
    path = f"/v1/environments/{environment_id}/exceptions"
    for group in await owner.get(f"{path}?since={_RANGE}&limit=100"):
        kind, part = group["type"], f"exception {group['type']}"
        if kind not in _DECISIONS or ledger.has(part):
            continue
        change = dict(_DECISIONS[kind])
        if kind in _ASSIGNED:
            change["assignee"] = ledger.get(f"person {_ASSIGNED[kind]}")["id"]
        await ingrid.patch(f"{path}/{group['id']}", change)
        ledger.note(part, group["id"])
    return all(ledger.has(f"exception {kind}") for kind in _DECISIONS)
