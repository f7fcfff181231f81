"""Topics of the event log and the consumer groups that read them."""

TELEMETRY = "pharos.telemetry"
TRACES = "pharos.otlp-traces"
LOGS = "pharos.otlp-logs"
METRICS = "pharos.otlp-metrics"
HEARTBEATS = "pharos.heartbeats"
QUEUES = "pharos.queues"
PAGEVIEWS = "pharos.pageviews"

MONITOR_TOPICS = (HEARTBEATS, QUEUES)
ALL_TOPICS = (TELEMETRY, TRACES, LOGS, METRICS, *MONITOR_TOPICS, PAGEVIEWS)
CONSUMER_GROUP = "pharos-consumers"
_DEAD = ".dead"


def dead_letter_topic(topic: str) -> str:
    """Return the topic for records of `topic` that can never be stored."""
    return f"{topic}{_DEAD}"


def is_dead_letter_topic(topic: str) -> bool:
    """True for a topic that `dead_letter_topic` returns."""
    return topic.endswith(_DEAD)
