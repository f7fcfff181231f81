"""The notification settings of the demo: a channel that ends at the demo shop itself, rules, thresholds, a silence."""

from datetime import UTC, datetime, timedelta
from typing import Any

from demo.api_client import ApiClient
from demo.ledger import Ledger
from pipeline_contracts.times import format_time

CHANNEL = "Shop's inbox"
_THRESHOLDS: tuple[dict[str, Any], ...] = (
    {
        "name": "Check-out is slow",
        "kind": "service.latency",
        "target": "checkout",
        "threshold": 1500,
        "recovery": 1000,
        "pending_seconds": 300,
    },
    {
        "name": "Storefront fails",
        "kind": "service.error_rate",
        "target": "storefront",
        "threshold": 12,
        "recovery": 5,
        "pending_seconds": 120,
    },
    {
        "name": "Photos wait",
        "kind": "queue.wait",
        "target": "images",
        "threshold": 900,
        "recovery": 300,
        "pending_seconds": 60,
    },
    {
        "name": "E-mails pile up",
        "kind": "queue.size",
        "target": "emails",
        "threshold": 500,
        "recovery": 100,
    },
    {
        "name": "Connections run out",
        "kind": "metric.value",
        "target": "db.client.connection.count",
        "service": "inventory",
        "aggregation": "max",
        "threshold": 40,
        "recovery": 30,
        "severity": "critical",
    },
)


async def set_up_notifications(
    owner: ApiClient, ledger: Ledger, project_id: str, production_id: str, shop: str
) -> None:
    """Create the channel, the rules, the thresholds and a silence. `shop` is the origin of the demo shop, which
    receives the messages, so nothing leaves this machine."""
    url = f"{shop}/inbox"
    if not ledger.has("channel"):
        body = {"name": CHANNEL, "type": "webhook", "settings": {"url": url}}
        created = await owner.post("/v1/notification-channels", body)
        ledger.note("channel", {"id": created["id"], "url": url})
    channel = ledger.get("channel")
    if channel["url"] != url:
        # The shop has another port after this start.
        await owner.patch(f"/v1/notification-channels/{channel['id']}", {"settings": {"url": url}})
        ledger.note("channel", {**channel, "url": url})
    if not ledger.has("rules"):
        recipients = [{"channel": channel["id"]}]
        for rule in (
            {"name": "All that is on by default", "recipients": recipients},
            {
                "name": "Each release of the shop",
                "project": project_id,
                "environment": production_id,
                "kinds": ["deployment.succeeded", "deployment.failed"],
                "recipients": recipients,
                "reminders": False,
            },
        ):
            await owner.post("/v1/notification-rules", rule)
        ledger.note("rules")
    for threshold in _THRESHOLDS:
        part = f"threshold {threshold['name']}"
        if not ledger.has(part):
            created = await owner.post(f"/v1/environments/{production_id}/thresholds", threshold)
            ledger.note(part, created["id"])
    if not ledger.has("silence"):
        ends_at = datetime.now(UTC) + timedelta(days=5)
        await owner.post(
            "/v1/silences",
            {
                "environment": ledger.get("staging"),
                "ends_at": format_time(ends_at),
                "reason": "Load tests of the new search",
            },
        )
        ledger.note("silence")
