"""The channels of an installation."""

import pytest
from yarl import URL

from control_domain.notifications.channel_types import CHANNEL_TYPES
from notifications.channels.all_channels import open_channels
from notifications.channels.interface import DeliveryFailed, Destination
from pipeline_contracts.settings import BadSettings, Settings
from tests.notifications.channels.receiver import run_receiver
from tests.notifications.sample_messages import make_message


async def test_each_type_has_a_channel() -> None:
    async with open_channels(Settings()) as channels:
        assert set(channels) == set(CHANNEL_TYPES)


async def test_unconfigured_types_name_the_missing_setting() -> None:
    async with open_channels(Settings()) as channels:
        for name, setting in {"email": "PHAROS_SMTP_URL", "apprise": "PHAROS_APPRISE"}.items():
            with pytest.raises(DeliveryFailed, match=setting) as caught:
                await channels[name].send(make_message(), Destination(name, {}, {}))
            # A start without the setting must not lose pending messages.
            assert not caught.value.is_permanent


async def test_unusable_settings_of_e_mail_stop_the_start() -> None:
    with pytest.raises(BadSettings, match="PHAROS_SMTP_FROM"):
        async with open_channels(Settings(smtp_url="smtp://mail.test")):
            pass


async def test_private_addresses_are_the_operators_choice() -> None:
    async with run_receiver() as receiver:
        destination = Destination("slack", {}, {"url": receiver.url()})
        async with open_channels(Settings()) as channels:
            with pytest.raises(DeliveryFailed, match="PHAROS_NOTIFICATION_PRIVATE_ADDRESSES"):
                await channels["slack"].send(make_message(), destination)
        async with open_channels(Settings(notification_private_addresses=True)) as channels:
            await channels["slack"].send(make_message(), destination)
        # The setting allows one endpoint by its address, and neither another port nor a host name.
        port = URL(receiver.url()).port or 0
        async with open_channels(Settings(), {("127.0.0.1", port)}) as channels:
            await channels["slack"].send(make_message(), destination)
            for url in (f"http://localhost:{port}/", f"http://127.0.0.1:{port + 1}/", "http://127.0.0.1/"):
                with pytest.raises(DeliveryFailed, match="PHAROS_NOTIFICATION_PRIVATE_ADDRESSES"):
                    await channels["slack"].send(make_message(), Destination("slack", {}, {"url": url}))
    assert len(receiver.received) == 2
