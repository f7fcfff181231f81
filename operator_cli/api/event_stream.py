"""Parses server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from operator_cli.api.answer import parse_answer
from operator_cli.api.http_connection import ConnectionFailed, connection_errors

if TYPE_CHECKING:
    import http.client

_MAX_LINE_BYTES: Final = 4 * 1024 * 1024


class Event(NamedTuple):
    """One event with its JSON data."""

    name: str
    id: str | None
    """The ID with which a new connection continues; None if the event has none."""
    data: Any


def read_events(response: "http.client.HTTPResponse") -> Iterator[Event]:
    """Yield the events until the server ends the response. Raises `ConnectionFailed` if it breaks."""
    name, event_id, data = "message", None, list[str]()
    for line in _read_lines(response):
        if not line:
            if data:
                yield Event(name, event_id, _parse("\n".join(data)))
            name, event_id, data = "message", None, []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "event":
                name = value
            case "id":
                event_id = value
            case "data":
                data.append(value)


def _read_lines(response: "http.client.HTTPResponse") -> Iterator[str]:
    while True:
        try:
            line = response.readline(_MAX_LINE_BYTES)
        except connection_errors() as error:
            raise ConnectionFailed(error, was_sent=True) from None
        if not line:
            return
        if not line.endswith(b"\n"):
            raise ConnectionFailed(ConnectionResetError("the stream broke within a line"), was_sent=True)
        yield line.rstrip(b"\r\n").decode(errors="replace")


def _parse(data: str) -> Any:
    try:
        return parse_answer(data)
    except ValueError as error:
        raise ConnectionFailed(error, was_sent=True) from None
