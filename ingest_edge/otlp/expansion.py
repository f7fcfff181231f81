"""Limit the size of a request's rows: each row repeats the attributes of its resource and scope, so that a small body
can become hundreds of megabytes.

Sizes are upper bounds of the JSON lines that the consumers build. Parts are measured only if a cheaper bound exceeds
the limit.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pipeline_contracts.errors import PayloadTooLarge

ROW_BYTES = 512
"""Bytes of a row besides the sender's data: names of columns, times, environment, position in the log."""
EVENT_BYTES = 96
"""Memory that the consumer needs for an event or a link of a span, which is more than its bytes in the row."""
EXEMPLAR_BYTES = 128


@dataclass(frozen=True, slots=True)
class Coding:
    """The most bytes of rows that one byte of a body can become."""

    shared: int
    """Bytes of a row for one byte of its resource or scope: escapes, and `service.name`, which a row has twice."""
    own: int
    """Bytes of all rows for one byte of the records: the worst case is the smallest exemplar."""
    text: int
    """Bytes of all rows for one byte of the records without exemplars, events and links: escapes."""
    measure_text: Callable[[bytes], int]
    """Counts the escapes of a body exactly, in a tenth of the time that its validation takes."""


def check_expansion(
    coding: Coding,
    body: bytes,
    records: int,
    shared_bytes: Callable[[], int],
    child_bytes: Callable[[], int],
    limit: int,
) -> None:
    """Raise `PayloadTooLarge` if the rows of a body may exceed `limit` bytes.

    `shared_bytes` measures the bytes that rows repeat, `child_bytes` the bytes of events, links, exemplars and numbers.
    """
    size = len(body)
    if records * (ROW_BYTES + coding.shared * size) + coding.own * size <= limit:
        return
    rows = records * ROW_BYTES + shared_bytes()
    if rows + coding.own * size <= limit:
        return
    rows += child_bytes()
    if rows + coding.text * size <= limit:
        return
    rows += coding.measure_text(body)
    if rows > limit:
        raise PayloadTooLarge(
            f"The request would become rows of up to {rows} bytes; the limit is {limit}. Send fewer records in a "
            "request, or shorten the attributes of its resources and scopes, which each row repeats."
        )
