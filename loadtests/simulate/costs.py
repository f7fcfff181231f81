"""The measured costs of the parts, which the model uses. They are stored in `costs.json`."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec
import orjson

COSTS = Path(__file__).with_name("costs.json")
"""`make curves ARGS=--publish` writes this file."""


@dataclass(frozen=True, slots=True)
class EdgeCosts:
    """The CPU time of an edge in microseconds, and the time that the brokers need for a produce
    request."""

    request_us: float
    event_us: float
    """The cost of each event in a request."""
    turn_us: float
    """The cost of each turn of the event loop, whatever it does."""
    produce_us: float
    """The cost of each produce request and its response."""
    broker_p50_ms: float
    broker_p99_ms: float


@dataclass(frozen=True, slots=True)
class ConsumerCosts:
    """The CPU time of a consumer process in microseconds."""

    record_us: float
    event_us: float


@dataclass(frozen=True, slots=True)
class InsertCosts:
    """What an insert of events into ClickHouse costs. The time is from the plan of a chunk to its
    commit."""

    insert_ms: float
    """The part of the time that does not depend on the number of rows."""
    row_ms: float
    cpu_us: float
    """The part of the CPU time that does not depend on the number of rows, including the merges that
    follow."""
    row_cpu_us: float


@dataclass(frozen=True, slots=True)
class BrokerCosts:
    """What a broker with one copy of each partition costs: CPU time in microseconds, and bytes in the
    log."""

    request_us: float
    event_us: float
    event_bytes: float
    """Compressed bytes of an event, in batches of 100 events."""


@dataclass(frozen=True, slots=True)
class Costs:
    """All costs, and the day and the machine of their measurement."""

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
    """Write the costs to the file as JSON. Return the file."""
    file.write_bytes(orjson.dumps(asdict(costs), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    return file
