"""Every type of channel on a running platform: a test, a real failure and its end arrive at servers that check them."""

import asyncio
import json
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from standardwebhooks.webhooks import Webhook

from tests.notifications.channels.mail_server import Mailbox, run_mail_server
from tests.notifications.channels.receiver import Received, Receiver, run_receiver
from tests.support.platform_process import PlatformProcess, platform_process

_SIGNING_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLwZp"
_SECONDS = 60


def _channels(receiver: Receiver) -> Mapping[str, dict[str, Any]]:
    """Return settings and secrets of a channel of each type whose server is the receiver; the path names the type."""
    return {
        "email": {"settings": {"address": "ops@example.com"}},
        "webhook": {
            "settings": {"url": receiver.url("/webhook")},
            "secrets": {"signing_secret": _SIGNING_SECRET},
        },
        "slack": {"secrets": {"url": receiver.url("/slack")}},
        "discord": {"secrets": {"url": receiver.url("/discord")}},
        "teams": {"secrets": {"url": receiver.url("/teams")}},
        "telegram": {
            "settings": {"chat_id": "-100123", "api_url": receiver.url("/telegram")},
            "secrets": {"bot_token": "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw0"},
        },
        "ntfy": {"settings": {"server": receiver.url("/ntfy")}, "secrets": {"topic": "pharos-alerts"}},
        "pagerduty": {
            "settings": {"url": receiver.url("/pagerduty")},
            "secrets": {"routing_key": "0123456789abcdef0123456789abcdef"},
        },
    }


class _Api:
    """The management API of a running platform."""

    def __init__(self, platform: PlatformProcess) -> None:
        self._platform = platform
        self.environment: str = platform.credentials["environment_id"]

    async def call(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> Any:
        headers = {
            "Authorization": f"Bearer {key or self._platform.credentials['api_token']}",
            "Content-Type": "application/json",
        }
        response = await asyncio.to_thread(
            self._platform.request,
            method,
            f"/api/v1{path}",
            body=None if body is None else json.dumps(body).encode(),
            headers=headers,
        )
        assert response.status < 300, (method, path, response.json)
        return response.json.get("data")

    async def report(self, heartbeat: Mapping[str, Any], signal: str) -> None:
        """Report a separate run with the heartbeat's key."""
        body = {"run_id": str(uuid.uuid4()), "signal": signal}
        await self.call("POST", f"/heartbeats/{heartbeat['id']}", body, key=heartbeat["key"]["key"])


async def test_a_test_a_failure_and_its_end_reach_every_channel(tmp_path: Path) -> None:
    async with run_receiver() as receiver, run_mail_server() as mailbox:
        env = {
            "PHAROS_NOTIFICATION_PRIVATE_ADDRESSES": "1",
            "PHAROS_NOTIFICATION_GROUP_SECONDS": "0",
            "PHAROS_NOTIFICATION_CHANGE_SECONDS": "0",
            "PHAROS_PUBLIC_URL": "https://pharos.example",
            "PHAROS_SMTP_URL": f"smtp://127.0.0.1:{mailbox.port}",
            "PHAROS_SMTP_FROM": "Pharos <pharos@example.com>",
            "PHAROS_SMTP_PLAINTEXT": "1",
        }
        running = platform_process(tmp_path / "data", env=env)
        platform = await asyncio.to_thread(running.__enter__)
        try:
            await _drive(_Api(platform), receiver, mailbox)
        finally:
            await asyncio.to_thread(running.__exit__, None, None, None)


async def _drive(api: _Api, receiver: Receiver, mailbox: Mailbox) -> None:
    channels = _channels(receiver)
    created = {
        name: await api.call("POST", "/notification-channels", {"name": name, "type": name, **values})
        for name, values in channels.items()
    }
    for channel in created.values():
        await api.call("POST", f"/notification-channels/{channel['id']}/test")
    # PagerDuty's test is opened and resolved.
    await _wait_for(receiver, mailbox, dict.fromkeys(channels, 1) | {"pagerduty": 2})

    await api.call(
        "POST",
        "/notification-rules",
        {
            "name": "everything",
            "kinds": ["heartbeat"],
            "recipients": [{"channel": channel["id"]} for channel in created.values()],
        },
    )
    heartbeat = await api.call(
        "POST", f"/environments/{api.environment}/heartbeats", {"name": "nightly", "period_seconds": 3600}
    )
    await api.report(heartbeat, "failure")
    await _wait_for(receiver, mailbox, dict.fromkeys(channels, 2) | {"pagerduty": 3})
    await api.report(heartbeat, "success")
    await _wait_for(receiver, mailbox, dict.fromkeys(channels, 3) | {"pagerduty": 4})
    _check_webhooks(_of(receiver, "webhook"))
    _check_texts(receiver, mailbox)
    # The outcome of a delivery is stored after the response of the receiver.
    async with asyncio.timeout(30):
        sent = await api.call("GET", "/notifications")
        while {each["status"] for each in sent} != {"sent"}:
            await asyncio.sleep(0.1)
            sent = await api.call("GET", "/notifications")
    assert len(sent) == 3 * len(channels)


def _of(receiver: Receiver, name: str) -> list[Received]:
    return [each for each in receiver.received if each.path.startswith(f"/{name}")]


async def _wait_for(receiver: Receiver, mailbox: Mailbox, counts: Mapping[str, int]) -> None:
    def read() -> dict[str, int]:
        return {name: len(mailbox.mails) if name == "email" else len(_of(receiver, name)) for name in counts}

    await _until(lambda: all(read()[name] >= count for name, count in counts.items()), read)
    assert read() == counts


async def _until(condition: Callable[[], bool], show: Callable[[], object]) -> None:
    try:
        async with asyncio.timeout(_SECONDS):
            while not condition():
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"still missing after {_SECONDS} s: {show()}") from None


def _check_webhooks(requests: list[Received]) -> None:
    """Check that the signatures are valid, and that failure and end have the same incident and group."""
    events = [Webhook(_SIGNING_SECRET).verify(each.body, each.headers) for each in requests]
    assert [event["type"] for event in events] == ["alert.info", "alert.firing", "alert.resolved"]
    assert [event["data"]["is_test"] for event in events] == [True, False, False]
    _, firing, resolved = (event["data"] for event in events)
    assert firing["group_id"] == resolved["group_id"]
    [down], [up] = firing["incidents"], resolved["incidents"]
    assert down["id"] == up["id"]
    assert (down["kind"], down["state"], up["state"]) == ("heartbeat.down", "firing", "resolved")
    assert down["labels"]["heartbeat"] == "nightly"
    assert firing["url"].startswith("https://pharos.example/incidents/inc_")


def _check_texts(receiver: Receiver, mailbox: Mailbox) -> None:
    """Check that every channel names the heartbeat when it goes down and when it is up again."""
    for name in ("slack", "discord", "teams", "telegram", "ntfy", "pagerduty"):
        failure, end = (each.body.decode() for each in _of(receiver, name)[-2:])
        assert "nightly" in failure and "nightly" in end, name
    triggered, resolved = (json.loads(each.body) for each in _of(receiver, "pagerduty")[-2:])
    assert (triggered["event_action"], resolved["event_action"]) == ("trigger", "resolve")
    assert triggered["dedup_key"] == resolved["dedup_key"]
    for mail in mailbox.mails[-2:]:
        assert mail["To"] == "ops@example.com"
        assert "nightly" in mail["Subject"]
        assert [part.get_content_type() for part in mail.iter_parts()] == ["text/plain", "text/html"]
