"""Batches are sent in the background, retried with the same bytes, and never block or break the application."""

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from pharos_client import diagnostics, sender
from pharos_client.client import Client
from pharos_client.settings import Settings
from tests.clients.python.scripted_server import Received, Reply, ScriptedServer, scripted_server
from tests.support.engines import free_port

Respond = Callable[[int, Received], Reply]


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use short pauses, and forget the warnings of other tests."""
    monkeypatch.setattr(sender, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(sender, "_LONGEST_PAUSE", 0.05)
    monkeypatch.setattr(diagnostics, "_last", {})


@contextmanager
def client_of(respond: Respond, **changes: Any) -> Iterator[tuple[Client, ScriptedServer]]:
    with scripted_server(respond) as server:
        settings = replace(Settings(host=server.url, key="phr_ing_x", batch_seconds=0.05), **changes)
        client = Client(settings)
        try:
            yield client, server
        finally:
            client.close(5)


def accept(_number: int, _request: Received) -> Reply:
    return Reply()


def test_batch_is_sent_by_time_by_count_and_by_size() -> None:
    with client_of(accept, batch_seconds=3600, batch_events=3, batch_bytes=10_000) as (client, server):
        for number in range(7):
            client.log(f"n{number}")
        assert client.flush(10)
        assert [request.titles for request in server.requests] == [
            ["n0", "n1", "n2"],
            ["n3", "n4", "n5"],
            ["n6"],
        ]
        for _ in range(3):
            client.log("x" * 4000)
        assert client.flush(10)
        assert [len(request.titles) for request in server.requests[3:]] == [2, 1]
    with client_of(accept) as (client, server):
        client.log("by time")
        while not server.requests:
            time.sleep(0.01)
        assert server.requests[0].titles == ["by time"]
        assert server.requests[0].headers["authorization"] == "Bearer phr_ing_x"


@pytest.mark.parametrize(
    ("name", "failure"),
    [
        ("429", Reply(429, headers={"Retry-After": "0"})),
        ("503", Reply(503)),
        ("500", Reply(500)),
        ("408", Reply(408)),
        ("401", Reply(401)),
    ],
)
def test_a_failed_batch_is_sent_again_with_its_id_and_bytes(name: str, failure: Reply) -> None:
    def respond(number: int, _request: Received) -> Reply:
        return failure if number < 3 else Reply()

    with client_of(respond) as (client, server):
        client.log("once")
        assert client.flush(20)
        assert len(server.requests) == 4
        assert len({request.body for request in server.requests}) == 1
        assert client.dropped == 0


def test_retry_after_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    def respond(number: int, _request: Received) -> Reply:
        return Reply(429, headers={"Retry-After": "7"}) if number == 0 else Reply()

    waited: list[float] = []
    monkeypatch.setattr(
        sender.BatchSender, "_wait_to_retry", lambda _self, seconds: waited.append(seconds) or True
    )
    with client_of(respond) as (client, _server):
        client.log("patient")
        assert client.flush(20)
    assert len(waited) == 1 and 7 <= waited[0] < 7.5


def test_a_batch_that_is_too_large_is_split_until_it_fits() -> None:
    def respond(_number: int, request: Received) -> Reply:
        titles = request.titles
        return Reply(413) if len(titles) > 2 or "giant" in titles else Reply()

    with client_of(respond, batch_seconds=3600) as (client, server):
        for title in ["a", "b", "c", "d", "e", "f", "giant"]:
            client.log(title)
        assert client.flush(20)
        accepted = server.accepted()
        assert [title for request in accepted for title in request.titles] == ["a", "b", "c", "d", "e", "f"]
        assert len({request.batch["batch_id"] for request in server.requests}) == len(server.requests)
        assert client.dropped == 1


def test_refused_events_are_left_out_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    def respond(_number: int, request: Received) -> Reply:
        errors = [
            {"field": f"events[{index}].title", "message": "is bad"}
            for index, title in enumerate(request.titles)
            if title.startswith("bad")
        ]
        return Reply(422, json.dumps({"errors": errors}).encode()) if errors else Reply()

    with client_of(respond, batch_seconds=3600) as (client, server), caplog.at_level(logging.WARNING):
        for title in ["good 1", "bad 1", "good 2", "bad 2"]:
            client.log(title)
        assert client.flush(20)
        titles = [request.titles for request in server.accepted()]
        assert titles[0] == ["good 1", "good 2"]
        # The platform is informed of the missing events.
        client.flush(20)
        assert [t for request in server.accepted()[1:] for t in request.titles] == [
            "pharos-client dropped 2 events of this process"
        ]
        assert client.dropped == 2
    assert "refused 2 of 4 events. events[1].title: is bad" in caplog.text
    assert {record.name for record in caplog.records} == {"pharos_client"}


@pytest.mark.parametrize(
    ("status", "body"), [(422, b"not json"), (422, b'{"errors": 5}'), (400, b""), (404, b"x")]
)
def test_a_batch_that_is_refused_for_good_is_dropped(status: int, body: bytes) -> None:
    with client_of(lambda *_: Reply(status, body), batch_seconds=3600) as (client, server):
        client.log("a")
        client.log("b")
        assert client.flush(20)
        assert (len(server.requests), client.dropped) == (1, 2)


@pytest.mark.parametrize("status", [302, 307, 308])
def test_no_redirect_is_followed(status: int) -> None:
    with scripted_server() as other:
        moved = Reply(status, headers={"Location": other.url})
        with client_of(lambda *_: moved) as (client, server):
            client.log("secret")
            assert client.flush(20)
        assert (len(server.requests), other.requests) == (1, [])


def test_full_buffer_drops_the_newest_events_and_reports_this_later() -> None:
    released = threading.Event()

    def respond(number: int, _request: Received) -> Reply:
        return Reply(wait=released) if number == 0 else Reply()

    with client_of(respond, buffer_events=10, batch_events=5) as (client, server):
        accepted = [client.log(f"n{number}") for number in range(25)]
        assert accepted == [True] * 10 + [False] * 15
        assert client.dropped == 15
        released.set()
        assert client.flush(20) and client.flush(20)
        titles = [title for request in server.requests for title in request.titles]
        assert titles == [f"n{number}" for number in range(10)] + [
            "pharos-client dropped 15 events of this process"
        ]


def test_the_buffer_is_bounded_in_bytes() -> None:
    released = threading.Event()
    with client_of(lambda *_: Reply(wait=released), buffer_bytes=10_000) as (client, _server):
        assert [client.log("x" * 4000) for _ in range(3)] == [True, True, False]
        released.set()


def test_a_server_that_does_not_respond_never_blocks_the_application() -> None:
    released = threading.Event()
    with client_of(lambda *_: Reply(wait=released), batch_events=1) as (client, server):
        client.log("first")
        while not server.requests:
            time.sleep(0.01)
        # While a request hangs, recording only fills memory. Flush and close end at their time limit.
        for number in range(500):
            client.log(f"n{number}")
        assert len(server.requests) == 1
        assert not client.flush(0.05)
        assert not client.close(0.05)
        assert client.dropped == 501
        assert not client.log("after the end")
        released.set()


def test_no_connection_is_retried_until_there_is_one() -> None:
    client = Client(Settings(host=f"http://127.0.0.1:{free_port()}", key="k", batch_seconds=0.01))
    client.log("nobody listens")
    assert not client.flush(0.2)
    assert not client.close(0.1)
    assert client.dropped == 1


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_sends_its_own_events_only() -> None:
    released = threading.Event()
    with client_of(lambda *_: Reply(wait=released), batch_seconds=0.01) as (client, server):
        client.log("parent")
        while not server.requests:
            time.sleep(0.01)
        child = os.fork()
        if child == 0:
            client.log("child")
            os._exit(0 if client.flush(20) else 1)
        client.log("parent again")
        released.set()
        assert os.waitpid(child, 0)[1] == 0
        assert client.flush(20)
        titles = sorted(title for request in server.requests for title in request.titles)
        assert titles == ["child", "parent", "parent again"]
