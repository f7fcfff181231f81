"""Record batches that grow until aiokafka takes them for a produce request, and the zstd level that they are sent with.

aiokafka encodes the records. Its public API has no level, and accepts records into a batch whose sequence number is
set already: see decisions/0041.
"""

import sys

from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from backports import zstd

# Level -1 costs 45 µs for a body of 50 KB, level 1 costs 61 µs and saves a third of the bytes.
_LEVEL = -1


class GrowingBatch(BatchBuilder):  # type: ignore[misc]
    """Records of one partition. `AIOKafkaProducer.send_batch` takes the batch while records are still appended to it.

    `append` returns None once the batch is full or taken.
    """

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes`: of encoded records, before compression. A larger record is a batch of its own."""
        super().__init__(max_bytes, DefaultRecordBatch.CODEC_ZSTD)

    def _set_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        # aiokafka has counted the records, and encodes the batch in a later iteration of the event loop. A record that
        # is appended in between shifts the sequence numbers, and the brokers refuse the next batch.
        self.close()
        super()._set_producer_state(producer_id, producer_epoch, base_sequence)


def set_compression() -> None:
    """Make aiokafka reuse one zstd context, at `_LEVEL`, in this whole process.

    aiokafka creates a context for each batch and compresses at level 3, which costs more than the rest of a produce
    request. If a version of aiokafka no longer calls the replaced function, batches are valid but slower.
    """
    compressor = zstd.ZstdCompressor(level=_LEVEL)

    def compress(records: bytes) -> bytes:
        compressed: bytes = compressor.compress(records, zstd.ZstdCompressor.FLUSH_FRAME)
        return compressed

    # The compiled builder and the one in Python are in different modules.
    vars(sys.modules[DefaultRecordBatchBuilder.__module__])["zstd_encode"] = compress
