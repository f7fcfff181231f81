"""Describes test messages of channels."""

from notifications.descriptions.interface import Description, Subject
from notifications.descriptions.read_facts import cut_title, read_text


def describe(subject: Subject) -> Description:
    """Return the description of a test, with the name of its channel."""
    channel = read_text(subject.facts, "channel", 100)
    return Description(
        title=cut_title("Test of a channel" if channel is None else f"Test of channel {channel}"),
        labels={} if channel is None else {"channel": channel},
    )
