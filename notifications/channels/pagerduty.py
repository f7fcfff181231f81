"""Sends messages to PagerDuty's Events API v2 (https://developer.pagerduty.com/docs/send-alert-event)."""

from typing import Any, Literal

import msgspec

from control_domain.notifications.channel_types import PagerDutySecrets, PagerDutySettings, read_settings
from notifications.channels.interface import Destination
from notifications.channels.markup import cut
from notifications.channels.outbound_http.client import TOTAL_SECONDS, OutboundHttp
from notifications.channels.outbound_http.replies import check_reply
from notifications.message import Message
from notifications.render.bound import bound_message
from notifications.render.view import view_message
from notifications.render.words import to_line

_MAX_SUMMARY = 1024
Action = Literal["trigger", "resolve"]


class PagerDutyChannel:
    """Opens one PagerDuty alert for each group of incidents, and resolves it together with the group."""

    def __init__(self, http: OutboundHttp) -> None:
        self._http = http

    async def send(self, message: Message, destination: Destination) -> None:
        """Send the message. A test also opens an alert, which is resolved at once, because nobody else would
        resolve it."""
        settings = read_settings(PagerDutySettings, destination.settings)
        key = read_settings(PagerDutySecrets, destination.secrets).routing_key
        actions: list[Action] = ["resolve"] if message.state == "resolved" else ["trigger"]
        if message.is_test:
            actions = ["trigger", "resolve"]
        for action in actions:
            body = msgspec.json.encode({"routing_key": key, **build_event(message, action)})
            reply = await self._http.post(settings.url, body, {}, seconds=TOTAL_SECONDS / len(actions))
            check_reply(
                reply,
                name="PagerDuty",
                secrets=destination.secrets.values(),
                hint="Check the integration key, and that its service is not disabled.",
            )


def build_event(message: Message, action: Action) -> dict[str, Any]:
    """Return the event as JSON. The routing key is added later. A repeated event with the same `dedup_key`
    changes the open alert."""
    view = view_message(message)
    place = "/".join(value for _, value in view.where)
    event: dict[str, Any] = {
        "event_action": action,
        "dedup_key": message.group_id,
        "client": "Pharos",
        "payload": {
            "summary": cut(view.subject, _MAX_SUMMARY),
            "source": place or "Pharos",
            "severity": message.severity,
            "timestamp": message.created_at,
            "component": message.project or "platform",
            "group": message.environment or "platform",
            "class": message.family,
            "custom_details": {
                "message_id": message.id,
                "firing": message.firing,
                "resolved": message.resolved,
                "not_listed": view.unlisted,
                "incidents": [
                    {
                        "id": incident.id,
                        "kind": listed.kind,
                        "state": listed.state,
                        "severity": listed.severity,
                        "title": incident.title,
                        "when": incident.since,
                        "labels": {
                            to_line(name, 100): to_line(value, 200) for name, value in listed.labels.items()
                        },
                        "facts": dict(incident.facts),
                        "details": list(incident.details),
                        "command": incident.command,
                        "url": incident.url,
                    }
                    for listed, incident in zip(bound_message(message).incidents, view.incidents, strict=True)
                ],
            },
        },
        "links": [{"href": link.url, "text": link.text} for link in view.links],
    }
    if view.links:
        event["client_url"] = view.links[0].url
    return event
