"""`pharos receipt` with unusable addresses, keys and responses."""

import argparse
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from operator_cli.errors import CommandFailed
from operator_cli.ingest import receipt

_SECRET = "phk_secret"


def _run_receipt(folder: Path, **credentials: object) -> None:
    (folder / "credentials.json").write_text(json.dumps(credentials))
    parser = argparse.ArgumentParser()
    receipt.register_receipt(parser.add_subparsers())
    arguments = parser.parse_args(["receipt", "rcp_1", "--data", str(folder)])
    arguments.run(arguments)


@contextmanager
def _answering(answer: bytes) -> Iterator[str]:
    """Serve this response to one request, and yield the base URL."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def respond() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=respond)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/api"
        finally:
            thread.join(30)


def test_unusable_credentials_are_reported_without_the_key(tmp_path: Path) -> None:
    for credentials, message in (
        ({"base_url": "http://127.0.0.1:9/api", "ingest_key": f"{_SECRET}\n"}, "holds no key"),
        ({"base_url": "http://127.0.0.1:9/api"}, "no base_url or no ingest_key"),
        ({"base_url": "pharos.example/api", "ingest_key": _SECRET}, "is not an address like https://"),
        ({"base_url": "localhost:8000/api", "ingest_key": _SECRET}, "is not an address like https://"),
        ({"base_url": "ftp://pharos.example/api", "ingest_key": _SECRET}, "is not an address like https://"),
        ({"base_url": "http://127.0.0.1:9/api", "ingest_key": _SECRET}, "does not answer"),
    ):
        with pytest.raises(CommandFailed) as failed:
            _run_receipt(tmp_path, **credentials)
        assert message in str(failed.value) and _SECRET not in str(failed.value), credentials


def test_a_receipt_is_printed_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for changed, lines in ((0, 4), (2, 5)):
        data = {"batch_id": "web-1", "clamped": changed, "received_at": None, "errors": ["a", "b"]}
        body = json.dumps({"data": data}).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with _answering(head + body) as base_url:
            _run_receipt(tmp_path, base_url=base_url, ingest_key=_SECRET)
        printed = capsys.readouterr().out.splitlines()
        assert len(printed) == lines and [line.split("  ")[0] for line in printed[:4]] == [
            "batch ID",
            f"times changed {changed}",
            "received at",
            "errors",
        ]
        assert not changed or "Check the clock of the sender." in printed[-1]


def test_a_response_that_is_not_a_receipt_is_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipt, "_MAX_BYTES", 100)
    for answer, message in (
        (
            b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>",
            "answered 502, but not with a receipt",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "answered 200, but not with a receipt"),
        (b"HTTP/1.1 301 Moved\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", "answered 301"),
        (b'HTTP/1.1 404 No\r\nContent-Length: 17\r\n\r\n{"detail":"none"}', "404 none"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{", "does not answer (IncompleteRead"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n" + 200 * b" ", "more than 100 bytes"),
        (b"", "does not answer"),
    ):
        with _answering(answer) as base_url, pytest.raises(CommandFailed) as failed:
            _run_receipt(tmp_path, base_url=base_url, ingest_key=_SECRET)
        assert message in str(failed.value), answer
