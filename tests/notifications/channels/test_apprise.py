"""Apprise in a separate process."""

import json

import msgspec
import pytest
from aiohttp import web

from notifications.channels.apprise_channel import AppriseChannel
from notifications.channels.interface import DeliveryFailed, Destination
from tests.notifications.channels.receiver import run_receiver
from tests.notifications.sample_messages import make_message


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the time limit, because a loaded machine takes long to start the program."""
    monkeypatch.setattr("notifications.channels.apprise_channel._TOTAL_SECONDS", 120.0)


async def _send(url: str) -> None:
    await AppriseChannel().send(make_message(), Destination("apprise", {}, {"url": url}))


async def test_message_arrives_and_redirects_are_not_followed() -> None:
    async with run_receiver() as receiver:
        await _send(f"json://127.0.0.1:{receiver.port}/hook")
        body = msgspec.json.decode(receiver.received[0].body)
        assert body["title"] == "Critical: Heartbeat nightly-backup is down (shop/production)"
        assert "pharos heartbeat show 12" in body["message"]
        receiver.answers.append(web.Response(status=307, headers={"Location": receiver.url("/next")}))
        with pytest.raises(DeliveryFailed, match="could not deliver") as caught:
            await _send(f"json://127.0.0.1:{receiver.port}/first?redirect=yes")
    assert not caught.value.is_permanent
    assert [each.path.partition("?")[0] for each in receiver.received] == ["/hook", "/first"]


async def test_services_and_files_of_this_machine_are_refused(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    template = tmp_path_factory.mktemp("template") / "card.json"
    template.write_text(json.dumps({"text": "of this machine"}))
    for url, text in (
        ("syslog://", "Services on Pharos' own machine are not allowed."),
        # Apprise would send the content of the file.
        (
            f"workflows://127.0.0.1:1/{'a' * 32}/{'b' * 43}/?template={template}",
            "Apprise does not understand the URL of the channel.",
        ),
    ):
        with pytest.raises(DeliveryFailed) as caught:
            await _send(url)
        assert (str(caught.value), caught.value.is_permanent) == (text, True)
    with pytest.raises(DeliveryFailed, match="could not deliver"):
        await _send(f"workflows://127.0.0.1:1/{'a' * 32}/{'b' * 43}/")
