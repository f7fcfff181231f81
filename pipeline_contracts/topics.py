"""Topics of the event log and the consumer groups that read them."""

TELEMETRY = "pharos.telemetry"
TRACES = "pharos.otlp-traces"
LOGS = "pharos.otlp-logs"
METRICS = "pharos.otlp-metrics"
HEARTBEATS = "pharos.heartbeats"
QUEUES = "pharos.queues"
PAGEVIEWS = "pharos.pageviews"

ALL_TOPICS = (TELEMETRY, TRACES, LOGS, METRICS, HEARTBEATS, QUEUES, PAGEVIEWS)
CONSUMER_GROUP = "pharos-consumers"


def dead_letter_topic(topic: str) -> str:
    """Where records of this topic go that can never be stored."""
    return f"{topic}.dead"
