"""Event streams of the API client: events, reconnections, and their end."""

import json

import pytest

from operator_cli.api.client import Api
from operator_cli.api.event_stream import Event
from operator_cli.api.problems import ApiRefused
from operator_cli.errors import CommandFailed, InstallationUnreachable
from tests.support.fake_api import NO_ANSWER, Answer, FakeApi, problem

_HEADERS = {"Content-Type": "text/event-stream"}


def _line(number: int) -> bytes:
    return f"event: line\nid: {number}\ndata: {json.dumps({'text': str(number)})}\n\n".encode()


def _status(status: str) -> bytes:
    return b'event: status\ndata: {"status": "%s"}\n\n' % status.encode()


def _is_final(event: Event) -> bool:
    return event.name == "status" and event.data["status"] == "succeeded"


def _read(api: Api) -> list[str]:
    events = api.stream("deployments", 1, "log", ends_after=_is_final)
    return [str(event.data.get("text") or event.data["status"]) for event in events]


def test_a_stream_ends_when_the_server_ends_it_after_the_final_event(server: FakeApi, api: Api) -> None:
    """Lines may follow the final status."""
    content = b": nothing new\n\n" + _line(1) + _status("succeeded") + _line(2)
    server.answers.append(Answer(content=content, headers=_HEADERS))
    assert _read(api) == ["1", "succeeded", "2"]
    assert server.requests[0].headers["accept"] == "text/event-stream"


@pytest.mark.parametrize("breaks", [True, False])
def test_a_broken_or_ended_stream_is_continued_after_the_last_event(
    server: FakeApi, api: Api, waits: list[float], breaks: bool
) -> None:
    server.answers.extend(
        [
            Answer(content=_line(1) + _line(2), headers=_HEADERS, breaks=breaks),
            Answer(content=_line(3) + _status("succeeded"), headers=_HEADERS),
        ]
    )
    assert _read(api) == ["1", "2", "3", "succeeded"]
    assert [request.headers.get("last-event-id") for request in server.requests] == [None, "2"]


def test_stream_without_data_is_reported_as_buffered(
    server: FakeApi, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("operator_cli.api.client._STREAM_SILENCE_SECONDS", 0.1)
    server.delay = 0.3
    server.answers.append(Answer(content=_line(1), headers=_HEADERS))
    with pytest.raises(InstallationUnreachable, match=r"sent nothing for 0.1 s.*may hold back event streams"):
        next(api.stream("deployments", 1, "log"))


def test_truncated_event_is_received_again(server: FakeApi, api: Api, waits: list[float]) -> None:
    server.answers.extend(
        [
            Answer(content=_line(1) + _line(2)[:-10], headers=_HEADERS, breaks=True),
            Answer(content=_line(2) + _status("succeeded"), headers=_HEADERS),
        ]
    )
    assert _read(api) == ["1", "2", "succeeded"]


def test_an_outage_is_reported_once_and_waited_for(
    server: FakeApi, api: Api, waits: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    begun = Answer(content=_line(1), headers=_HEADERS)
    busy = Answer(429, {"detail": "Too many streams."})
    server.answers.extend([begun, NO_ANSWER, problem(503, "unavailable", "Away."), busy])
    server.answers.append(Answer(content=_status("succeeded"), headers=_HEADERS))
    assert _read(api) == ["1", "succeeded"]
    assert capsys.readouterr().err.count("Still waiting.") == 1
    assert waits == sorted(waits) and len(waits) == 4


def test_a_refused_stream_ends_the_command(server: FakeApi, api: Api, waits: list[float]) -> None:
    server.answers.append(problem(404, "not-found", "There is no such deployment."))
    with pytest.raises(ApiRefused, match="no such deployment"):
        _read(api)
    server.answers.append(NO_ANSWER)
    with pytest.raises(InstallationUnreachable):
        _read(api)
    server.answers.extend(
        [Answer(content=_line(1), headers=_HEADERS), problem(401, "invalid-credential", "Revoked.")]
    )
    with pytest.raises(ApiRefused, match="revoked"):
        _read(api)


def test_a_server_without_event_streams_is_reported(server: FakeApi, api: Api) -> None:
    server.answers.append(Answer(content={"data": []}))
    with pytest.raises(CommandFailed, match="sends no live output"):
        _read(api)
