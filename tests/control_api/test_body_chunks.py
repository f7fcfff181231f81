"""Large bodies leave the application in views of bounded size."""

from typing import Any

from control_api.http.middleware import BodyChunkMiddleware
from control_api.reference.served_files import document_file

_PIECE = 32 * 1024


async def _send_through(*bodies: bytes) -> list[dict[str, Any]]:
    """Return the messages that reach the server when the application sends these bodies."""
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number, body in enumerate(bodies, 1):
            await send({"type": "http.response.body", "body": body, "more_body": number < len(bodies)})

    async def receive() -> Any:
        raise AssertionError("nothing is read")

    async def send(message: Any) -> None:
        sent.append(message)

    await BodyChunkMiddleware(app)({"type": "http"}, receive, send)
    return sent[1:]


async def test_large_body_is_sent_in_chunks_that_share_its_memory() -> None:
    body = bytes(range(256)) * 256 + b"end"
    pieces = await _send_through(body)
    assert [len(piece["body"]) for piece in pieces] == [_PIECE, _PIECE, 3]
    assert [piece["more_body"] for piece in pieces] == [True, True, False]
    assert b"".join(piece["body"] for piece in pieces) == body
    assert all(piece["body"].obj is body for piece in pieces)


async def test_small_and_streamed_bodies_are_passed_unchanged() -> None:
    large = bytes(2 * _PIECE)
    assert await _send_through(b"small") == [
        {"type": "http.response.body", "body": b"small", "more_body": False}
    ]
    pieces = await _send_through(large, b"")
    assert [(len(piece["body"]), piece["more_body"]) for piece in pieces] == [
        *((_PIECE, True), (_PIECE, True), (0, False))
    ]


def test_all_clients_share_the_plain_bytes_of_a_file() -> None:
    file = document_file()
    assert file.plain() is file.plain()
