"""Topics of the event log and the consumer groups that read them."""

TELEMETRY = "pharos.telemetry"

ALL_TOPICS = (TELEMETRY,)
CONSUMER_GROUP = "pharos-consumers"


def dead_letter_topic(topic: str) -> str:
    """Where records of this topic go that can never be stored."""
    return f"{topic}.dead"
