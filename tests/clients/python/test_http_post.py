"""Single requests of the Python client."""

import contextlib
import socket
import threading
import time

from pharos_client.http_post import post


def test_a_body_that_never_ends_is_cut_off() -> None:
    """The status is known: a slow server must not hold the thread that sends."""

    def serve(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 202 Accepted\r\nContent-Length: 1000000\r\n\r\n")
            # Until the client hangs up.
            while True:
                connection.sendall(b"x")
                time.sleep(0.02)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        response = post(f"http://127.0.0.1:{server.getsockname()[1]}/", b"", {}, 0.2)
        thread.join()
    assert response.status == 202 and 0 < len(response.body) < 1_000_000
