"""Parsing the brokers' responses about a group's positions."""

import io
from typing import Any

import pytest
from aiokafka.protocol.commit import OffsetFetchResponse_v1, OffsetFetchResponse_v3

from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.records import Position
from storage_backends.event_log.kafka_positions import encode_position, fetch_positions, parse_positions

TOPIC, LOG = "t", "0a1b2c3d4e5f"
LOADING, AWAY, MOVED, NOT_ALLOWED, UNSTABLE = 14, 15, 16, 29, 88


def answer(*partitions: tuple[int, int, str, int], error: int = 0, topic: str = TOPIC) -> Any:
    """Build a response as it arrives: (partition, offset, metadata, error code), and the top-level error."""
    sent = OffsetFetchResponse_v3(0, [(topic, list(partitions))] if partitions else [], error)
    return OffsetFetchResponse_v3.decode(io.BytesIO(sent.encode()))


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (answer((0, -1, "", 0), (1, -1, "", 0)), {0: Position(0), 1: Position(0)}),
        (answer((1, 7, f"@{LOG}", 0), (0, 5, f"9@{LOG}", 0)), {0: Position(5, 9), 1: Position(7)}),
        # Written by an earlier version, and by an operator's tool.
        (answer((0, 5, "9", 0), (1, 7, "", 0)), {0: Position(5, 9), 1: Position(7)}),
        # A position of the topic before it was recreated.
        (answer((0, 5, "9@ffffffffffff", 0), (1, 7, f"@{LOG}", 0)), {0: Position(0), 1: Position(7)}),
        *((answer(error=code), None) for code in (LOADING, AWAY, MOVED, NOT_ALLOWED, -1)),
        *(
            (answer((0, -1, "", code), (1, 7, "", 0)), None)
            for code in (LOADING, AWAY, MOVED, NOT_ALLOWED, UNSTABLE)
        ),
        # The top-level error takes precedence over the partitions.
        (answer((0, -1, "", 0), (1, -1, "", 0), error=AWAY), None),
        (answer((0, 5, "", 0)), None),
        (answer(), None),
        (answer((0, 5, "", 0), (1, 7, "", 0), topic="other"), None),
        (answer((0, -2, "", 0), (1, 7, "", 0)), None),
        (answer((0, 5, "what?", 0), (1, 7, "", 0)), None),
        # Version 1 has no top-level error.
        (
            OffsetFetchResponse_v1([(TOPIC, [(0, -1, "", 0), (1, 7, "", 0)])]),
            {0: Position(0), 1: Position(7)},
        ),
        (OffsetFetchResponse_v1([(TOPIC, [(0, -1, "", MOVED), (1, 7, "", 0)])]), None),
    ],
)
def test_only_a_response_without_errors_is_a_position(
    response: Any, expected: dict[int, Position] | None
) -> None:
    if expected is None:
        with pytest.raises(StorageUnavailable, match=TOPIC):
            parse_positions(response, TOPIC, [0, 1], LOG)
    else:
        assert parse_positions(response, TOPIC, [0, 1], LOG) == expected


@pytest.mark.parametrize("position", [Position(0), Position(7), Position(5, 9), Position(2**40, 2**41)])
def test_a_position_is_read_as_it_was_committed(position: Position) -> None:
    sent = encode_position(position, LOG)
    assert parse_positions(answer((0, sent.offset, sent.metadata, 0)), TOPIC, [0], LOG) == {0: position}


async def test_a_moving_coordinator_does_not_look_like_a_group_without_positions() -> None:
    """aiokafka's own call ignores the top-level error and returns no positions."""

    class Moving:
        async def find_coordinator(self, group: str) -> int:
            return 1

        async def _send_request(self, request: object, node: int) -> Any:
            return answer(error=MOVED)

    with pytest.raises(StorageUnavailable, match="NotCoordinatorForGroupError"):
        await fetch_positions(Moving(), "g", TOPIC, [0], LOG)
