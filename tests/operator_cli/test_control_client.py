"""Requests to the operator socket, and truncated responses."""

import asyncio
from pathlib import Path

import pytest

from operator_cli.control_client import request_socket
from operator_cli.errors import CommandFailed, InstallationUnreachable


async def _ask(folder: Path, response: bytes, path: str = "/query") -> tuple[bytes, bytes]:
    """Return the received request, and the content that the client returns for this response."""
    received = bytearray()

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.extend(await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(6))
        writer.write(response)
        writer.close()

    async with await asyncio.start_unix_server(respond, str(folder / "operator.sock")):
        content = await request_socket(folder, "POST", path, params={"a": "ä b"}, body="größ")
    return bytes(received), content


async def test_a_request_carries_parameters_and_body(tmp_path: Path) -> None:
    request, content = await _ask(tmp_path, b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok")
    assert request.startswith(b"POST /query?a=%C3%A4+b HTTP/1.0\r\n")
    assert request.endswith("größ".encode())
    assert content == b"ok"


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nshor",
        b"HTTP/1.0 200 OK\r\n\r\nno length",
        b"HTTP/1.0 200 OK\r\nContent-Length: five\r\n\r\nshort",
        b"\r\n\r\n",
        b"220 mail.example ESMTP\r\n",
        b"HTTP/1.0 503 Service Unavailable\r\nContent-Length: 4\r\n\r\naway",
    ],
)
async def test_a_truncated_response_or_503_means_unreachable(tmp_path: Path, response: bytes) -> None:
    with pytest.raises(InstallationUnreachable):
        await _ask(tmp_path, response)


async def test_a_refusal_carries_the_text_of_the_response(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="no such thing"):
        await _ask(tmp_path, b"HTTP/1.0 400 Bad Request\r\nContent-Length: 13\r\n\r\nno such thing")


async def test_an_action_without_a_response_advises_to_check_first(tmp_path: Path) -> None:
    with pytest.raises(InstallationUnreachable, match="may have done what you asked"):
        await _ask(tmp_path, b"", "/actions/keys/create")
    with pytest.raises(InstallationUnreachable, match="Look at its log"):
        await _ask(tmp_path, b"", "/query")


async def test_a_missing_socket_and_one_of_another_user_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InstallationUnreachable, match="Nothing runs on"):
        await request_socket(tmp_path, "GET", "/events")

    async def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    # The tests may run as root, who has every permission.
    monkeypatch.setattr(asyncio, "open_unix_connection", refuse)
    with pytest.raises(InstallationUnreachable, match="another user"):
        await request_socket(tmp_path, "GET", "/events")
