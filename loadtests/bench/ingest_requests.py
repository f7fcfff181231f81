"""Makes complete requests as bytes for the load generator."""

import gzip
import uuid
from collections.abc import Iterator, Sequence

from loadtests.bench.collect_payloads import ORIGIN, collect_bodies, user_agents
from loadtests.bench.load import MakeRequest
from loadtests.bench.otlp_payloads import otlp_bodies
from loadtests.bench.payloads import make_bodies, number_body

# Use so many different bodies that they fill several group commits of the log.
_BODIES = 256
_SINGLE_BODIES = 4096
# Placeholder for a key in a prepared head.
_KEY = "@"


def ingest_requests(ingest_key: str, events: int) -> MakeRequest:
    """Return a function that makes requests of `events` events. Each event has an ID of its own."""
    bodies = make_bodies(_SINGLE_BODIES if events == 1 else _BODIES, events)
    heads = [_head(ingest_key, len(body), "") for body in bodies]

    def make_request(number: int) -> bytes:
        index = number % len(bodies)
        return heads[index] + number_body(bodies[index], number)

    return make_request


def spread_requests(ingest_keys: Sequence[str], events: int) -> MakeRequest:
    """Return a function that makes requests of `events` events, with the keys in turn."""
    bodies = make_bodies(_SINGLE_BODIES if events == 1 else _BODIES, events)
    heads = [_head(_KEY, len(body), "").split(_KEY.encode()) for body in bodies]
    keys = [key.encode() for key in ingest_keys]

    def make_request(number: int) -> bytes:
        index = number % len(bodies)
        return keys[number % len(keys)].join(heads[index]) + number_body(bodies[index], number)

    return make_request


def gzip_requests(ingest_key: str, events: int) -> MakeRequest:
    """Return a function that makes compressed requests of `events` events. They are prepared in advance and sent
    repeatedly: the edge alone accepts repeated batches."""
    requests: Sequence[bytes] = [
        _head(ingest_key, len(packed), "Content-Encoding: gzip\r\n") + packed
        for number, body in enumerate(make_bodies(_BODIES, events))
        for packed in [gzip.compress(number_body(body, number), compresslevel=6)]
    ]
    return lambda number: requests[number % len(requests)]


def otlp_requests(ingest_key: str, signal: str, coding: str) -> MakeRequest:
    """Return a function that makes OTLP requests of 100 records. They are sent repeatedly, because OTLP requests
    have no IDs."""
    content_type = "application/json" if coding == "json" else "application/x-protobuf"
    path = f"/api/v1/otlp/v1/{signal}"
    requests = [
        _head(ingest_key, len(body), "", path, content_type) + body
        for body in otlp_bodies(signal, coding, _BODIES)
    ]
    return lambda number: requests[number % len(requests)]


def heartbeat_requests(monitor_key: str, heartbeat: int) -> MakeRequest:
    """Return a function that makes signals of one heartbeat. Each signal belongs to a run of its own."""
    requests = [_signal_request(monitor_key, heartbeat, number) for number in range(_SINGLE_BODIES)]
    return lambda number: requests[number % len(requests)]


def _signal_request(monitor_key: str, heartbeat: int, number: int) -> bytes:
    run = uuid.UUID(int=number << 64 | 4 << 76)
    body = b'{"run_id":"%s","signal":"success"}' % str(run).encode()
    return _head(monitor_key, len(body), "", f"/api/v1/heartbeats/{heartbeat}") + body


def spread_heartbeat_requests(monitor_keys: Sequence[str]) -> MakeRequest:
    """Return a function that makes signals of the heartbeats 1, 2 and so on in turn, each with its own key."""
    requests = [_signal_request(key, number, number) for number, key in enumerate(monitor_keys, 1)]
    return lambda number: requests[number % len(requests)]


def collect_requests(tracker_id: str, views: int) -> MakeRequest:
    """Return a function that makes collect requests, as browsers behind a proxy send them. Each request is from
    another visitor, with unique event IDs."""
    bodies = collect_bodies(_SINGLE_BODIES if views == 1 else _BODIES, views)
    agents = user_agents()
    digits = [list(_id_ends(body)) for body in bodies]

    def make_request(number: int) -> bytes:
        index = number % len(bodies)
        body = bytearray(bodies[index])
        for view, place in enumerate(digits[index]):
            body[place : place + 12] = b"%012d" % (number * views + view)
        head = (
            f"POST /api/v1/collect/{tracker_id} HTTP/1.1\r\n"
            "Host: 127.0.0.1\r\n"
            f"User-Agent: {agents[number % len(agents)]}\r\n"
            "Accept: */*\r\nAccept-Language: nb-NO,nb;q=0.9\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n"
            "Content-Type: text/plain;charset=UTF-8\r\n"
            f"Origin: {ORIGIN}\r\nReferer: {ORIGIN}/\r\n"
            "Sec-Fetch-Dest: empty\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Site: cross-site\r\n"
            f"X-Forwarded-For: 84.{number >> 16 & 127}.{number >> 8 & 255}.{number & 255}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    return make_request


def _id_ends(body: bytes) -> Iterator[int]:
    """Return where the last 12 digits of each event's ID begin in the body."""
    mark = b"-7000-8000-"
    place = body.find(mark)
    while place >= 0:
        yield place + len(mark)
        place = body.find(mark, place + 1)


def _head(
    key: str,
    length: int,
    more: str,
    path: str = "/api/v1/ingest",
    content_type: str = "application/json",
) -> bytes:
    # These are the headers that a typical client library sends.
    return (
        f"POST {path} HTTP/1.1\r\n"
        "Host: 127.0.0.1\r\n"
        f"Authorization: Bearer {key}\r\n"
        f"Content-Type: {content_type}\r\n"
        f"{more}"
        "Accept: */*\r\n"
        "Accept-Encoding: gzip, deflate\r\n"
        "User-Agent: pharos-bench/1\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()
