"""Reads the partitions and topic IDs of topics from the brokers. Kafka assigns a topic ID when a topic is created.

aiokafka supports Metadata requests up to version 5; topic IDs exist since version 10 (Kafka 2.8).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError, for_code
from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

from pipeline_contracts.errors import StorageUnavailable

_METADATA = 3
_NO_ID = bytes(16)


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """Describes a topic that exists."""

    partitions: int
    topic_id: str | None
    """The topic ID: 32 hexadecimal digits that change each time the topic is created. None on brokers before Kafka
    2.8."""


async def describe_topics(
    client: AIOKafkaClient, topics: Sequence[str], seconds: float
) -> dict[str, TopicDescription]:
    """Describe those of the topics that exist. Raises `StorageUnavailable`, also after `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            try:
                answer = await client.send(client.get_random_node(), _DescribeRequest(topics))
                found = [(code, name, key, len(parts)) for code, name, key, _, parts, *_ in answer.topics]
            except NotImplementedError:
                # The brokers do not support this version of the request.
                answer = await client.send(client.get_random_node(), MetadataRequest(list(topics), False))
                found = [(code, name, _NO_ID, len(parts)) for code, name, _, parts in answer.topics]
    except (KafkaError, OSError) as error:
        raise StorageUnavailable(f"The brokers do not describe their topics: {error!r}") from error
    described = {}
    for code, name, key, partitions in found:
        if code == UnknownTopicOrPartitionError.errno:
            continue
        if code:
            raise StorageUnavailable(f"The brokers do not describe {name}: {for_code(code).__name__}")
        described[name] = TopicDescription(partitions, None if key == _NO_ID else key.hex())
    return described


class _Uuid(AbstractType[bytes]):  # type: ignore[misc]
    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(16)


class _DescribeResponse(Response):  # type: ignore[misc]
    API_KEY = _METADATA
    API_VERSION = 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", CompactString("utf-8")),
                ("topic_id", _Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_authorized_operations", Int32),
        ("tags", TaggedFields),
    )


class _DescribeRequest_v10(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY = _METADATA
    API_VERSION = 10
    RESPONSE_TYPE = _DescribeResponse
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(
                ("topic_id", _Uuid),
                ("name", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class _DescribeRequest(Request[_DescribeRequest_v10]):  # type: ignore[misc]
    API_KEY = _METADATA

    def __init__(self, topics: Sequence[str]) -> None:
        self._topics = topics

    def build(self, request_struct_class: type[_DescribeRequest_v10]) -> _DescribeRequest_v10:
        topics: list[tuple[Any, ...]] = [(_NO_ID, topic, {}) for topic in self._topics]
        return request_struct_class(topics, False, False, False, {})
