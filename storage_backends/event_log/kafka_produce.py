"""Encodes the produce request, version 7, and decodes its response, for aiokafka's connections.

aiokafka encodes requests field by field after a schema, which costs more than the rest of a small request. The format:
https://kafka.apache.org/protocol#The_Messages_Produce
"""

import struct
from collections.abc import Iterator, Mapping
from io import BytesIO

from aiokafka.errors import IncompatibleBrokerVersion
from aiokafka.protocol.api import RequestStruct
from aiokafka.protocol.produce import ProduceRequest_v7
from aiokafka.structs import TopicPartition

# All in-sync replicas must acknowledge the request.
_ALL_IN_SYNC = -1
_NO_TRANSACTION = -1
_HEAD = struct.Struct(">hhii")
_LENGTH = struct.Struct(">h")
_COUNT = struct.Struct(">i")
_PARTITION = struct.Struct(">ii")
# Fields: partition, error, first offset, timestamp, first offset of the log.
_RESULT = struct.Struct(">ihqqq")


class Produced:
    """The response to a produce request: the error code of each partition. 0: the batch is stored."""

    def __init__(self, codes: Mapping[TopicPartition, int]) -> None:
        self.codes = codes

    @classmethod
    def decode(cls, data: BytesIO) -> "Produced":
        """Decode the response, without its header. Raises `struct.error` if the data is too short."""
        return cls(dict(_read_codes(data.read())))


def _read_codes(data: bytes) -> Iterator[tuple[TopicPartition, int]]:
    (topics,) = _COUNT.unpack_from(data)
    place = _COUNT.size
    for _ in range(topics):
        (length,) = _LENGTH.unpack_from(data, place)
        place += _LENGTH.size + length
        topic = data[place - length : place].decode()
        (partitions,) = _COUNT.unpack_from(data, place)
        place += _COUNT.size
        for _ in range(partitions):
            partition, code, *_ = _RESULT.unpack_from(data, place)
            place += _RESULT.size
            yield TopicPartition(topic, partition), code


class Produce(RequestStruct):  # type: ignore[misc]
    """A request that stores one batch in each of several partitions with the same leader."""

    API_KEY = ProduceRequest_v7.API_KEY
    API_VERSION = ProduceRequest_v7.API_VERSION
    RESPONSE_TYPE = Produced
    SCHEMA = ProduceRequest_v7.SCHEMA

    def __init__(self, timeout_ms: int, batches: Mapping[TopicPartition, bytes]) -> None:
        """`timeout_ms`: how long the broker waits for the replicas, in milliseconds."""
        self._timeout_ms = timeout_ms
        self._batches = batches

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> "Produce":
        """Check that the broker knows this version. Raises `IncompatibleBrokerVersion`."""
        oldest, newest = versions.get(self.API_KEY, (0, 0))
        if not oldest <= self.API_VERSION <= newest:
            raise IncompatibleBrokerVersion("The broker is too old: Pharos needs Kafka 2.1 or newer.")
        return self

    def encode(self) -> bytes:
        by_topic: dict[str, list[tuple[int, bytes]]] = {}
        for target, batch in self._batches.items():
            by_topic.setdefault(target.topic, []).append((target.partition, batch))
        parts = [_HEAD.pack(_NO_TRANSACTION, _ALL_IN_SYNC, self._timeout_ms, len(by_topic))]
        for topic, batches in by_topic.items():
            name = topic.encode()
            parts += (_LENGTH.pack(len(name)), name, _COUNT.pack(len(batches)))
            for partition, batch in batches:
                parts += (_PARTITION.pack(partition, len(batch)), batch)
        return b"".join(parts)

    def __repr__(self) -> str:
        return f"Produce({len(self._batches)} batches)"
