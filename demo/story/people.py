"""Adds the people of the demo: two colleagues with accepted invitations, and one with an open invitation."""

from demo.api_client import ApiClient
from demo.ledger import Ledger
from demo.story.releases import INGRID, JONAS

_COLLEAGUES = ((INGRID, "ingrid@lanterns.example", "admin"), (JONAS, "jonas@lanterns.example", "member"))
_INVITED = "mika@lanterns.example"
ACCOUNT_NAME = "Lanterns & Light"


async def add_people(owner: ApiClient, ledger: Ledger, project_id: str) -> None:
    """Invite the colleagues and accept for them. The ledger stores their tokens under their names.

    No address exists in the domain `.example`, and invitations are not e-mailed.
    """
    for name, email, role in _COLLEAGUES:
        part = f"person {name}"
        if ledger.has(part):
            continue
        roles = [] if role == "admin" else [{"project": project_id, "role": "maintainer"}]
        invited = await owner.post("/v1/invitations", {"email": email, "role": role, "project_roles": roles})
        accepted = await owner.with_token("").post(
            "/v1/invitations/accept", {"invitation": invited["secret"], "name": name}
        )
        ledger.note(part, {"id": accepted["person"]["id"], "token": accepted["api_token"]})
    if not ledger.has("invitation"):
        await owner.post("/v1/invitations", {"email": _INVITED, "expires_in": 7 * 86_400})
        await owner.patch("/v1/account", {"name": ACCOUNT_NAME})
        ledger.note("invitation")


def client_of(owner: ApiClient, ledger: Ledger, name: str) -> ApiClient:
    """Return a client with the token of a colleague."""
    return owner.with_token(ledger.get(f"person {name}")["token"])
