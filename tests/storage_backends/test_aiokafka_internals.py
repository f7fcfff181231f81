"""The undocumented parts of aiokafka that the log on Kafka stands on. A failure here comes from another version of
aiokafka: read decisions/0023 and decisions/0041 before the pin in pyproject.toml changes.
"""

import ast
import inspect
import re
from importlib.metadata import version
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer.fetcher import Fetcher, FetchResult
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.producer.message_accumulator import BatchBuilder, MessageAccumulator, MessageBatch
from aiokafka.record.default_records import DefaultRecordBatch
from backports import zstd

from storage_backends.event_log import kafka_batch
from storage_backends.event_log.kafka_batch import GrowingBatch, set_compression

_PACKAGE = Path(kafka_batch.__file__).parent
_VERSION = f"aiokafka {version('aiokafka')}"
# Bytes of a batch in front of its records: message format v2.
_HEAD_BYTES = 61
_USED = {
    AIOKafkaAdminClient: ("_client", "_send_request"),
    AIOKafkaClient: ("_sync_task",),
    AIOKafkaConsumer: ("_client", "_coordinator", "_fetcher", "_subscription"),
    BatchBuilder: ("_set_producer_state",),
    FetchResult: ("_partition_records", "_update_position", "check_assignment"),
    Fetcher: ("_fetch_task", "_notify", "_records", "_wait_consume_future"),
    GroupCoordinator: ("_commit_refresh_task", "_coordination_task", "_heartbeat_task", "check_errors"),
    SubscriptionState: ("reassignment_in_progress",),
}


@pytest.mark.parametrize(
    ("owner", "name"), [(owner, name) for owner, names in _USED.items() for name in names]
)
def test_aiokafka_still_has_each_undocumented_name(owner: type, name: str) -> None:
    assert re.search(rf"\b{name}\b", inspect.getsource(owner)), f"{_VERSION} has no {owner.__name__}.{name}"


def test_the_list_of_undocumented_names_is_complete() -> None:
    listed = {name for names in _USED.values() for name in names}
    for path in sorted(_PACKAGE.glob("kafka*.py")):
        tree = ast.parse(path.read_text())
        own = {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        for node in ast.walk(tree):
            if (
                not isinstance(node, ast.Attribute)
                or not node.attr.startswith("_")
                or node.attr.startswith("__")
            ):
                continue
            of_self = isinstance(node.value, ast.Name) and node.value.id == "self"
            assert of_self or node.attr in own | listed, (
                f"{path.name}:{node.lineno} uses {node.attr}; add it to _USED"
            )


def test_a_batch_takes_no_record_after_its_records_are_counted() -> None:
    batch = _batch(b"first")
    batch._set_producer_state(7, 1, 40)
    assert batch.append(timestamp=None, key=b"k", value=b"late") is None
    sent = DefaultRecordBatch(bytes(batch._build()))
    assert (sent.producer_id, sent.producer_epoch, sent.base_sequence) == (7, 1, 40)
    assert [record.value for record in sent] == [b"first"]


def test_aiokafka_numbers_a_batch_in_the_same_turn_in_which_it_counts_its_records() -> None:
    """What is appended between the two, or after both, shifts the sequence numbers of the next batch."""
    source = inspect.getsource(MessageAccumulator._pop_batch)
    counted, numbered = source.find("batch.record_count"), source.find("batch.set_producer_state(")
    assert 0 < counted < numbered, f"{_VERSION} counts or numbers the records of a batch elsewhere"
    assert "await" not in source, f"{_VERSION} lets records in between counting and numbering"
    assert "_builder._set_producer_state(" in inspect.getsource(MessageBatch.set_producer_state), (
        f"{_VERSION} does not pass the sequence number to the batch: GrowingBatch never closes in time"
    )


def test_aiokafka_compresses_batches_as_set() -> None:
    set_compression()
    values = [b"%d" % n * 100 for n in range(50)]
    built = bytes(_batch(*values)._build())
    packed = built[_HEAD_BYTES:]
    assert packed == zstd.compress(zstd.decompress(packed), level=-1), (
        f"{_VERSION} compresses with another function than set_compression replaces: batches cost more CPU"
    )
    sent = DefaultRecordBatch(built)
    assert sent.compression_type == DefaultRecordBatch.CODEC_ZSTD
    assert sent.validate_crc()
    assert [record.value for record in sent] == values


def test_a_batch_is_full_at_its_size_and_takes_one_larger_record() -> None:
    batch = GrowingBatch(1000)
    assert batch.append(timestamp=None, key=b"k", value=bytes(5000)) is not None
    assert batch.append(timestamp=None, key=b"k", value=b"x") is None
    assert batch.closed()


def _batch(*values: bytes) -> GrowingBatch:
    batch = GrowingBatch(2**20)
    for value in values:
        assert batch.append(timestamp=None, key=b"k", value=value, headers=[("pharos", b"m")]) is not None
    return batch
