"""Measures Pharos and its peers with the same requests, one after the other."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass

from loadtests.bench.figures import percentile
from loadtests.bench.ingest_requests import ingest_requests, otlp_requests
from loadtests.bench.load import MakeRequest
from loadtests.bench.measured_load import measure_load
from loadtests.bench.on_kafka import running_engines
from loadtests.bench.otlp_payloads import RECORDS
from loadtests.bench.process_usage import peak_mb
from loadtests.bench.progress import Progress
from loadtests.peers.read_back import PeerFailed, check_stored, read_back
from loadtests.peers.servers import PEERS, Cluster
from pipeline_contracts import topics

_CONNECTIONS = 32
_OTLP_TOPICS = {"traces": topics.TRACES, "logs": topics.LOGS, "metrics": topics.METRICS}


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of request that is measured. `goals`: by peer, the highest allowed CPU time of Pharos, as a
    share of the CPU time of that peer."""

    records: int
    topic: str
    expected: int
    peers: Sequence[str]
    requests: Callable[[str], MakeRequest]
    goals: Mapping[str, float]


def _ingest(events: int, goals: Mapping[str, float]) -> Case:
    peers = ("Pharos", "Pharos, Python", "Go", "Rust")
    return Case(events, topics.TELEMETRY, 202, peers, lambda key: ingest_requests(key, events), goals)


def _otlp(signal: str, coding: str, goals: Mapping[str, float]) -> Case:
    return Case(
        RECORDS,
        _OTLP_TOPICS[signal],
        200,
        tuple(PEERS),
        lambda key: otlp_requests(key, signal, coding),
        goals,
    )


CASES: Mapping[str, Case] = {
    "ingest, 100 events": _ingest(100, {"Rust": 0.9}),
    "ingest, 1 event": _ingest(1, {"Go": 1.3}),
    "traces, JSON": _otlp("traces", "json", {"Collector": 0.4}),
    "traces, protobuf": _otlp("traces", "protobuf", {"Collector": 0.5}),
    "logs, JSON": _otlp("logs", "json", {"Collector": 0.5}),
    "logs, protobuf": _otlp("logs", "protobuf", {"Collector": 0.5}),
    "metrics, JSON": _otlp("metrics", "json", {"Collector": 0.6, "Go": 1.0}),
    "metrics, protobuf": _otlp("metrics", "protobuf", {"Collector": 0.6, "Go": 1.0}),
}
"""All kinds of requests, by name."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The measurements to make. `rates`: requests per second; 0 means full speed."""

    cases: Sequence[str]
    peers: Sequence[str]
    rates: Sequence[int]
    rounds: int
    warm_up: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Taken:
    """The result of one measurement of one peer."""

    case: str
    rate: int
    round: int
    peer: str
    cpu_us: float
    """User and system time of the process per record."""
    requests_per_second: float
    p50_ms: float
    p99_ms: float
    peak_mb: float
    answered: int
    stored: int


async def measure_peers(progress: Progress, plan: Plan) -> AsyncIterator[Taken]:
    """Measure every kind of request at every rate. In each round, the peers run one after the other, each in
    a new process.

    Raises `PeerFailed` if a request is refused, or if an acknowledged request is not in the log exactly once.
    Raises `EngineMissing`.
    """
    async with running_engines(progress) as (kafka, redis):
        cluster = Cluster(kafka.bootstrap, redis.url)
        for name in plan.cases:
            for rate in plan.rates:
                for number in range(plan.rounds):
                    for peer in CASES[name].peers:
                        if peer in plan.peers:
                            yield await _measure(progress, plan, cluster, name, rate, number, peer)


async def _measure(
    progress: Progress, plan: Plan, cluster: Cluster, name: str, rate: int, number: int, peer: str
) -> Taken:
    case = CASES[name]
    label = f"{name}, {f'{rate:,} requests/s' if rate else 'full speed'}, round {number + 1}, {peer}"
    progress.begin_part(label)
    async with PEERS[peer](cluster) as server:
        measured = await measure_load(
            progress,
            label,
            server.pid,
            server.port,
            case.requests(server.key),
            connections=_CONNECTIONS,
            expected=case.expected,
            warm_up=plan.warm_up,
            seconds=plan.seconds,
            per_second=rate or None,
        )
        peak = peak_mb(server.pid)
    if measured.failures:
        raise PeerFailed(f"{label}: {next(iter(measured.failures))}")
    with progress.step(f"{label}: reading back", None):
        stored = await read_back(cluster.bootstrap, case.topic)
    try:
        check_stored(stored, measured.answered, _CONNECTIONS)
    except PeerFailed as error:
        raise PeerFailed(f"{label}: {error}") from None
    progress.end_part()
    return Taken(
        name,
        rate,
        number,
        peer,
        measured.cpu_us / case.records,
        measured.per_second,
        1e3 * percentile(measured.latencies, 0.5),
        1e3 * percentile(measured.latencies, 0.99),
        peak,
        measured.answered,
        stored.messages,
    )
