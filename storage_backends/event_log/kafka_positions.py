"""Encodes and reads the committed positions of a consumer group: an offset, with the end of the planned chunk and the
log ID in its metadata."""

import logging
from collections.abc import Collection
from typing import Any

from aiokafka import OffsetAndMetadata
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import for_code
from aiokafka.protocol.commit import OffsetFetchRequest

from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.records import Position

logger = logging.getLogger(__name__)

_NOTHING_COMMITTED = -1


async def fetch_positions(
    admin: AIOKafkaAdminClient, group: str, topic: str, partitions: Collection[int], log_id: str
) -> dict[int, Position]:
    """Return the group's position in each of the partitions. Raises `StorageUnavailable` and aiokafka's errors.

    This replaces aiokafka's `list_consumer_group_offsets`, which ignores the top-level error of the response: the
    response of a coordinator that is starting or moving would look like a group without commits.
    """
    coordinator = await admin.find_coordinator(group)
    request = OffsetFetchRequest(group, [(topic, sorted(partitions))])
    return parse_positions(await admin._send_request(request, coordinator), topic, partitions, log_id)


def parse_positions(
    response: Any, topic: str, partitions: Collection[int], log_id: str
) -> dict[int, Position]:
    """Return the positions in an OffsetFetch response.

    Only offset -1 without an error means that nothing was committed. Raises `StorageUnavailable` for an error in the
    response, and for a missing partition.
    """
    # The top-level error code exists since version 2 of the request.
    _raise_error(getattr(response, "error_code", 0), topic)
    found: dict[int, Position] = {}
    for name, answers in response.topics:
        for partition, offset, metadata, code in answers:
            if name == topic:
                _raise_error(code, f"{topic}/{partition}")
                found[partition] = _decode(f"{topic}/{partition}", offset, metadata, log_id)
    if missing := sorted(set(partitions) - found.keys()):
        raise StorageUnavailable(f"The brokers did not return the group's position in {topic}/{missing[0]}.")
    return {partition: found[partition] for partition in partitions}


def encode_position(position: Position, log_id: str) -> OffsetAndMetadata:
    """Encode a position for a commit: the metadata is `<end of the plan>@<log ID>`."""
    end = "" if position.plan_end is None else position.plan_end
    return OffsetAndMetadata(position.next_offset, f"{end}@{log_id}")


def _decode(partition_name: str, offset: int, metadata: str | None, log_id: str) -> Position:
    if offset == _NOTHING_COMMITTED:
        return Position(0)
    # Metadata without a log ID was written by an earlier version, or by an operator's tool.
    plan, _, committed_in = (metadata or "").partition("@")
    if committed_in and committed_in != log_id:
        logger.error(
            "%s: the group's position %d belongs to the log %s, and the topic was recreated as %s. Reading from its "
            "beginning.",
            partition_name,
            offset,
            committed_in,
            log_id,
        )
        return Position(0)
    if offset < 0 or (plan and not plan.isdecimal()):
        raise StorageUnavailable(
            f"The group's position in {partition_name} cannot be read: {offset}, {metadata!r}."
        )
    return Position(offset, int(plan) if plan else None)


def _raise_error(code: int, partition_name: str) -> None:
    if code:
        raise StorageUnavailable(
            f"The group's position in {partition_name} cannot be read: the brokers answered "
            f"{for_code(code).__name__} ({code})."
        )
