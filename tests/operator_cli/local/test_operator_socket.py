"""Requests to the operator socket, and truncated responses."""

import socket
import threading
from pathlib import Path

import pytest

from operator_cli.errors import CommandFailed, InstallationUnreachable
from operator_cli.local.operator_socket import post_to_socket, query_socket

_QUERY = "SELECT 'größ'"


def _ask(folder: Path, response: bytes) -> tuple[bytes, str]:
    """Return the received request, and the result of the client for this response."""
    received = bytearray()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "operator.sock"))
        server.listen()

        def respond() -> None:
            connection, _ = server.accept()
            with connection:
                while not received.endswith(_QUERY.encode()):
                    received.extend(connection.recv(4096))
                connection.sendall(response)

        thread = threading.Thread(target=respond)
        thread.start()
        try:
            rows = query_socket(folder, _QUERY)
        finally:
            thread.join()
    return bytes(received), rows


def test_a_request_carries_the_query(tmp_path: Path) -> None:
    request, rows = _ask(tmp_path, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    assert request.startswith(b"POST /query HTTP/1.1\r\n")
    assert rows == "ok"


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nshor",
        b"\r\n\r\n",
        b"220 mail.example ESMTP\r\n",
        b"HTTP/1.0 503 Service Unavailable\r\nContent-Length: 4\r\n\r\naway",
    ],
)
def test_a_truncated_response_or_503_means_unreachable(tmp_path: Path, response: bytes) -> None:
    with pytest.raises(InstallationUnreachable) as raised:
        _ask(tmp_path, response)
    assert ("may have done what you asked" in str(raised.value)) == (b"503" not in response)


def test_a_running_platform_that_lacks_the_request_is_of_another_version(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"is of another version.*restart it"):
        _ask(
            tmp_path,
            b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\n"
            b"Content-Length: 14\r\n\r\n404: Not Found",
        )


def test_a_refusal_carries_the_text_of_the_response(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="no such thing"):
        _ask(tmp_path, b"HTTP/1.0 400 Bad Request\r\nContent-Length: 13\r\n\r\nno such thing")


def test_a_missing_socket_and_one_of_another_user_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InstallationUnreachable, match="Nothing runs on"):
        post_to_socket(tmp_path, "/calls", b"{}")

    class RefusingSocket(socket.socket):
        def connect(self, address: object) -> None:
            raise PermissionError(13, "Permission denied", address)

    # The tests may run as root, who has every permission.
    monkeypatch.setattr("operator_cli.local.operator_socket.socket.socket", RefusingSocket)
    with pytest.raises(InstallationUnreachable, match="another user"):
        post_to_socket(tmp_path, "/calls", b"{}")
