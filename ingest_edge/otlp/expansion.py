"""The limit on the rows of a request: each row repeats the attributes of its resource and scope, so that a small body
can become hundreds of megabytes.

A size is an upper bound of the JSON lines that the consumers make. The exact parts are measured only where cheaper
bounds are over the limit.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pipeline_contracts.errors import PayloadTooLarge

ROW_BYTES = 512
"""What a row has besides the sender's data: names of columns, times, environment, place in the log."""
EVENT_BYTES = 96
"""The same for an event or a link of a span. Both are counted by the memory that the consumer needs for them, which is
more than they take in the row."""
EXEMPLAR_BYTES = 128


@dataclass(frozen=True, slots=True)
class Coding:
    """How much more than a byte of the body a byte of the rows can be."""

    shared: int
    """Bytes of a row for one byte of its resource or scope: escapes; `service.name`, which is in a row twice."""
    own: int
    """Bytes of all rows for one byte of the body, without what is shared: the smallest exemplar."""
    text: int
    """The same without exemplars, events and links: escapes."""
    measure_text: Callable[[bytes], int]
    """Counts the escapes of a body instead, which takes a tenth of the time of judging it."""


def check_expansion(
    coding: Coding,
    body: bytes,
    records: int,
    shared: Callable[[], int],
    children: Callable[[], int],
    limit: int,
) -> None:
    """Raise `PayloadTooLarge` if the rows of a body come to over `limit` bytes.

    `shared` measures what all rows repeat, `children` what events, links, exemplars and numbers add.
    """
    size = len(body)
    if records * (ROW_BYTES + coding.shared * size) + coding.own * size <= limit:
        return
    rows = records * ROW_BYTES + shared()
    if rows + coding.own * size <= limit:
        return
    rows += children()
    if rows + coding.text * size <= limit:
        return
    rows += coding.measure_text(body)
    if rows > limit:
        raise PayloadTooLarge(
            f"The request would become rows of up to {rows} bytes; the limit is {limit}. Send fewer records in a "
            "request, or shorten the attributes of its resources and scopes, which each row repeats."
        )
