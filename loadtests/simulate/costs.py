"""Measured costs of the parts, with which the model computes, in `costs.json`."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec
import orjson

COSTS = Path(__file__).with_name("costs.json")
"""Written by `make curves ARGS=--publish`."""


@dataclass(frozen=True, slots=True)
class EdgeCosts:
    """CPU microseconds of an edge, and the time of the brokers for a produce request."""

    request_us: float
    event_us: float
    """Each event of a request."""
    turn_us: float
    """Each turn of the event loop, independent of its work."""
    produce_us: float
    """Each produce request, with its response."""
    broker_p50_ms: float
    broker_p99_ms: float


@dataclass(frozen=True, slots=True)
class ConsumerCosts:
    """CPU microseconds of a consumer process."""

    record_us: float
    event_us: float


@dataclass(frozen=True, slots=True)
class InsertCosts:
    """An insert of rows of events into ClickHouse. The time is from the plan of a chunk to its commit."""

    insert_ms: float
    """Time of an insert without its rows."""
    row_ms: float
    cpu_us: float
    """CPU of an insert without its rows, with the merges that follow."""
    row_cpu_us: float


@dataclass(frozen=True, slots=True)
class BrokerCosts:
    """A broker with one copy of each partition: CPU microseconds, and bytes in the log."""

    request_us: float
    event_us: float
    event_bytes: float
    """Compressed bytes of an event, in batches of 100."""


@dataclass(frozen=True, slots=True)
class Costs:
    """All costs, with the day and the machine of their measurement."""

    date: str
    machine: Mapping[str, str]
    edge: EdgeCosts
    consumer: ConsumerCosts
    insert: InsertCosts
    broker: BrokerCosts


def read_costs(file: Path = COSTS) -> Costs:
    """Read the result of `write_costs`. Raises `OSError` and `msgspec.DecodeError`."""
    return msgspec.json.decode(file.read_bytes(), type=Costs)


def write_costs(costs: Costs, file: Path = COSTS) -> Path:
    """Write the costs as JSON; return the file."""
    file.write_bytes(orjson.dumps(asdict(costs), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    return file
