"""One record through a broker that asks for a password."""

from storage_backends.event_log.kafka import open_kafka_log
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_consumer import KafkaLogConsumer
from storage_backends.event_log.kafka_topics import create_topics
from tests.support.log_under_test import MB, claimed, topic_settings, until_connected


async def write_and_read(connection: KafkaConnection) -> None:
    """Create a topic, append a record to it and read it back. Raises `AssertionError`."""
    await create_topics(connection, ["guarded"], topic_settings(1))
    log = await open_kafka_log(connection, ["guarded"], buffer_bytes=MB, acknowledge_seconds=60.0)
    consumer = KafkaLogConsumer(connection, "group", "guarded")
    try:
        await until_connected(log)
        await log.append("guarded", b"k", b"m", b"value")
        await claimed(consumer)
        records = []
        while not records:
            records = await consumer.read(0, 0, None, MB, 1.0)
        assert records[0].value == b"value"
    finally:
        await consumer.close()
        await log.close()
