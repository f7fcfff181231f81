"""Sets up the first project for the shop: its name, its environments, its variables and its site."""

from demo.api_client import ApiClient
from demo.ledger import Ledger

NAME = "Lanterns & Light"
_VARIABLES = """\
APP_ENV=production
DATABASE_URL=postgres://shop:0a7c1e@db.lanterns.example:5432/shop
REDIS_URL=redis://cache.lanterns.example:6379/0
PAYMENTS_KEY=demo_live_4f1b7c20
PAYMENTS_WEBHOOK_SECRET=demo_whsec_93ab
MAIL_FROM="Lanterns & Light <hello@lanterns.example>"
FEATURE_GIFT_CARDS=off
"""
_PROTECTED = ("DATABASE_URL", "PAYMENTS_KEY")


async def set_up_shop(owner: ApiClient, ledger: Ledger, project_id: str, production_id: str) -> None:
    """Name the project, add its staging environment, and set variables. The ledger stores the staging environment's ID
    as `staging`."""
    if not ledger.has("shop"):
        await owner.patch(f"/v1/projects/{project_id}", {"name": NAME})
        ledger.note("shop")
    if not ledger.has("staging"):
        found = await owner.get(f"/v1/projects/{project_id}/environments")
        staging = next((each for each in found if each["slug"] == "staging"), None)
        if staging is None:
            body = {"name": "Staging", "type": "staging", "branch": "develop"}
            staging = await owner.post(f"/v1/projects/{project_id}/environments", body)
        ledger.note("staging", staging["id"])
    if not ledger.has("variables"):
        staging_text = _VARIABLES.replace("production", "staging").replace("_live_", "_test_")
        for environment, text in ((production_id, _VARIABLES), (ledger.get("staging"), staging_text)):
            await owner.put(f"/v1/environments/{environment}/variables", {"variables": text})
        for name in _PROTECTED:
            path = f"/v1/environments/{ledger.get('staging')}/variables/{name}/protection"
            await owner.send("PUT", path)
        ledger.note("variables")
