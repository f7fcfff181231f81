"""Record batches and produce requests, read by aiokafka's own decoders."""

from io import BytesIO

import pytest
from aiokafka.errors import IncompatibleBrokerVersion
from aiokafka.protocol.produce import ProduceRequest_v7, ProduceResponse_v7
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.structs import TopicPartition
from backports import zstd

from storage_backends.event_log.kafka_batch import META_HEADER, RecordBatch
from storage_backends.event_log.kafka_produce import Produce, Produced

_NOW = 1_790_000_000_000
# Bytes of a batch before its records.
_HEAD_BYTES = 61
# Around each length at which a variable-length integer gets another byte.
_SIZES = (0, 1, 63, 64, 8191, 8192, 1_048_575, 1_048_576, 20_000_000)


@pytest.mark.parametrize("byte", [b"x", b"\0"])
def test_aiokafka_reads_what_was_written(byte: bytes) -> None:
    batch = RecordBatch(2**30, _NOW)
    written = []
    for number, size in enumerate(_SIZES * 20):
        key, meta, value = (
            b"k" * (number % 70),
            b"m" * (number * 3 % 9000),
            byte * size if number < 9 else byte,
        )
        # A clock that is set back by seconds, or jumps ahead by days.
        now = _NOW + (-5000, 0, 1, 10**9)[number % 4]
        assert batch.append(key, meta, value, now)
        written.append((key, [(META_HEADER, meta)], value, max(_NOW, now)))
    read = DefaultRecordBatch(batch.encode(7, 3, 2**31 - 2))
    assert read.validate_crc()
    assert (read.producer_id, read.producer_epoch, read.base_sequence) == (7, 3, 2**31 - 2)
    assert (read.is_transactional, read.is_control_batch, read.last_offset_delta) == (False, False, 179)
    records = list(read)
    assert [(r.key, [*r.headers], r.value, r.timestamp) for r in records] == written
    assert [record.offset for record in records] == list(range(180))
    assert read.max_timestamp == max(timestamp for *_, timestamp in written)


def test_batches_are_compressed_where_that_saves_bytes() -> None:
    small, large = RecordBatch(1000, _NOW), RecordBatch(10**6, _NOW)
    small.append(b"k", b"", b"\x01\x7f", _NOW)
    large.append(b"k", b"", b"text " * 1000, _NOW)
    plain, packed = small.encode(1, 0, 0), large.encode(1, 0, 0)
    assert DefaultRecordBatch(plain).compression_type == DefaultRecordBatch.CODEC_NONE
    assert DefaultRecordBatch(packed).compression_type == DefaultRecordBatch.CODEC_ZSTD
    assert b"text text" in zstd.decompress(packed[_HEAD_BYTES:])
    assert [record.value for record in DefaultRecordBatch(plain)] == [b"\x01\x7f"]


def test_a_batch_is_full_at_its_size_and_takes_one_larger_record() -> None:
    batch = RecordBatch(1000, _NOW)
    assert batch.append(b"k", b"", bytes(5000), _NOW)
    assert not batch.append(b"k", b"", b"x", _NOW)
    assert batch.count == 1


def test_a_request_has_the_bytes_of_aiokafkas() -> None:
    batches = {
        TopicPartition("a", 0): b"first",
        TopicPartition("b.\u00e9", 2**31 - 1): b"",
        TopicPartition("a", 7): b"third" * 1000,
    }
    topics = [("a", [(0, b"first"), (7, b"third" * 1000)]), ("b.\u00e9", [(2**31 - 1, b"")])]
    assert Produce(9000, batches).encode() == ProduceRequest_v7(None, -1, 9000, topics).encode()
    assert Produce(9000, {}).encode() == ProduceRequest_v7(None, -1, 9000, []).encode()


def test_a_response_is_read_as_by_aiokafka() -> None:
    topics = [("a", [(0, 0, 12, -1, 0), (7, 45, -1, -1, -1)]), ("b.\u00e9", [(1, 6, -1, -1, -1)])]
    encoded = ProduceResponse_v7(topics, 0).encode()
    assert Produced.decode(BytesIO(encoded)).codes == {
        TopicPartition("a", 0): 0,
        TopicPartition("a", 7): 45,
        TopicPartition("b.\u00e9", 1): 6,
    }


def test_an_old_broker_is_refused() -> None:
    request = Produce(1000, {})
    assert request.prepare({0: (3, 13)}) is request
    for versions in ({}, {0: (0, 6)}, {0: (8, 13)}):
        with pytest.raises(IncompatibleBrokerVersion):
            request.prepare(versions)
