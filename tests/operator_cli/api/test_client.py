"""Requests of the API client to a server that responds, refuses, breaks connections, or is not Pharos."""

import contextlib
import re
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from operator_cli.api.client import Api
from operator_cli.api.problems import ApiRefused
from operator_cli.api.target import Target
from operator_cli.errors import CommandFailed, InstallationUnreachable, UsageError
from tests.support.fake_api import NO_ANSWER, TOKEN, Answer, FakeApi, page, problem


def test_a_read_returns_the_data_and_quotes_its_path(server: FakeApi, api: Api) -> None:
    server.answers.append(Answer(content={"data": {"id": 7}}))
    found = api.get(
        "environments", "a/b c", 7, query={"limit": 5, "all": True, "kind": ["x", "y"], "none": None}
    )
    assert found == {"id": 7}
    [request] = server.requests
    assert request.path == "/api/v1/environments/a%2Fb%20c/7?limit=5&all=true&kind=x&kind=y"
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert "idempotency-key" not in request.headers


def test_a_list_is_read_page_by_page_up_to_its_limit(server: FakeApi, api: Api) -> None:
    server.answers.extend([page([{"id": 3}, {"id": 2}], "more"), page([{"id": 1}])] * 2)
    assert [row["id"] for row in api.get_all("tokens")] == [3, 2, 1]
    assert len(api.get_all("tokens", limit=2)) == 2
    assert [request.path.partition("?")[2] for request in server.requests] == [
        "limit=100",
        "limit=100&cursor=more",
        "limit=2",
    ]


def test_requests_share_one_connection(server: FakeApi, api: Api) -> None:
    server.answers.extend([Answer()] * 3)
    for _ in range(3):
        api.get("account")
    assert server.connections == 1


def test_each_post_has_a_new_key_and_its_repetition_the_same_key(server: FakeApi, api: Api) -> None:
    server.answers.extend([Answer(202), NO_ANSWER, Answer(202)])
    api.post("projects", body={"name": "Größe"})
    api.post("projects")
    keys = [request.headers["idempotency-key"] for request in server.requests]
    assert keys[0] != keys[1] == keys[2]
    assert all(re.fullmatch("[0-9a-f]{32}", key) for key in keys)
    assert [request.body for request in server.requests] == [{"name": "Größe"}, None, None]


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
def test_a_change_without_a_key_is_not_repeated(server: FakeApi, api: Api, method: str) -> None:
    server.answers.append(NO_ANSWER)
    with pytest.raises(InstallationUnreachable, match="may have done what you asked"):
        api.request(method, "projects", 1)
    assert len(server.requests) == 1


@pytest.mark.parametrize("answer", [NO_ANSWER, Answer(content=b'{"data": 1}', breaks=True)])
def test_a_read_is_repeated_once_when_the_connection_breaks(
    server: FakeApi, api: Api, answer: Answer
) -> None:
    server.answers.extend([answer, Answer(content={"data": 1}), answer, answer])
    assert api.get("account") == 1
    with pytest.raises(InstallationUnreachable, match="ended the connection"):
        api.get("account")


def test_a_change_can_be_bound_to_a_version(server: FakeApi, api: Api) -> None:
    server.answers.extend([Answer(headers={"ETag": '"1"'}), Answer(), Answer()])
    etag = api.request("GET", "projects", 1).etag
    api.patch("projects", 1, body={"name": "x"}, etag=etag)
    api.patch("projects", 1, body={"name": "x"})
    assert [request.headers.get("if-match") for request in server.requests] == [None, '"1"', None]


@pytest.mark.parametrize("status", [429, 503])
def test_a_read_waits_as_long_as_a_busy_installation_asks(
    server: FakeApi, api: Api, waits: list[float], status: int
) -> None:
    busy = Answer(status, {"detail": "Busy."}, {"Retry-After": "2"})
    server.answers.extend([busy, busy, Answer(content={"data": 1})])
    assert api.get("account") == 1
    assert waits == [2.0, 2.0]


def test_waits_are_limited(server: FakeApi, api: Api, waits: list[float]) -> None:
    server.answers.extend([problem(503, "unavailable", "Away.")] * 4)
    with pytest.raises(InstallationUnreachable, match="Away"):
        api.get("account")
    server.answers.append(Answer(429, {"detail": "Later."}, {"Retry-After": "3600"}))
    with pytest.raises(ApiRefused, match="Later"):
        api.get("account")
    server.answers.append(Answer(429, {"detail": "Later."}, {"Retry-After": "1"}))
    with pytest.raises(ApiRefused, match="Later"):
        api.post("projects")
    assert waits == [1.0, 1.0, 1.0]


def test_refusal_has_fields_and_next_step_on_separate_lines(server: FakeApi, api: Api) -> None:
    errors = [
        {"field": "name", "message": "is required"},
        {"field": "document", "message": "is bad", "line": 4},
        # The form in which the API reports faults of documents.
        {"field": "document.stages", "message": "line 7: is bad", "line": 7},
    ]
    server.answers.append(problem(422, "validation-failed", "Nothing was changed.", errors=errors))
    with pytest.raises(ApiRefused) as refused:
        api.post("projects")
    assert str(refused.value).splitlines() == [
        "Nothing was changed.",
        "  name: is required",
        "  document (line 4): is bad",
        "  document.stages (line 7): is bad",
    ]
    assert (refused.value.status, refused.value.slug, refused.value.exit_status) == (
        422,
        "validation-failed",
        1,
    )
    server.answers.append(problem(409, "deploy-running", "A deploy runs.", active_deployment_id=9))
    with pytest.raises(ApiRefused, match="`pharos cancel 9`"):
        api.post("environments", 1, "deploy")
    server.answers.append(problem(404, "not-found", "There is no such project."))
    with pytest.raises(ApiRefused) as refused:
        api.get("projects", 1)
    assert refused.value.exit_status == 5


@pytest.mark.parametrize(
    ("status", "detail"),
    [(404, "There is nothing at this address."), (405, "This address does not take the method.")],
)
def test_missing_operation_is_not_reported_as_a_missing_name(
    server: FakeApi, api: Api, status: int, detail: str
) -> None:
    server.answers.append(problem(status, "not-found", detail))
    with pytest.raises(CommandFailed) as refused:
        api.get("heartbeats")
    assert str(refused.value) == (
        f"{server.url} has no such operation: it runs an older version of Pharos, or the URL is wrong."
    )
    assert (refused.value.exit_status, isinstance(refused.value, ApiRefused)) == (1, False)


def test_a_member_that_the_installation_does_not_send_is_named(server: FakeApi, api: Api) -> None:
    server.answers.append(Answer(content={"data": [{"person": {"id": 1}}]}))
    [row] = api.get("people")
    assert (row["person"]["id"], row.get("slug"), "slug" in row) == (1, None, False)
    for document in (row, row["person"]):
        with pytest.raises(CommandFailed, match="answered without 'slug'.*another version of Pharos"):
            document["slug"]


def test_text_of_the_server_cannot_act_on_the_terminal(server: FakeApi, api: Api) -> None:
    errors = [{"field": "a\x1b[2J", "message": "b\r"}]
    server.answers.append(problem(409, "conflict", "Locked by \x1b]0;x\x07.", errors=errors))
    with pytest.raises(ApiRefused) as refused:
        api.get("projects")
    assert "\x1b" not in str(refused.value) and "\r" not in str(refused.value)


def test_a_refused_credential_is_named_but_not_shown(server: FakeApi, api: Api) -> None:
    server.answers.append(problem(401, "invalid-credential", "This token was revoked."))
    with pytest.raises(ApiRefused) as refused:
        api.get("account")
    assert f"{server.url} refused the token of the test: this token was revoked. Ask the test." == str(
        refused.value
    )
    assert refused.value.exit_status == 4
    assert TOKEN not in repr(api.target)


def test_a_redirect_is_reported_and_gets_no_token(server: FakeApi, api: Api) -> None:
    server.answers.append(Answer(301, {}, {"Location": "https://elsewhere.example/api"}))
    with pytest.raises(CommandFailed, match="redirects to https://elsewhere.example/api"):
        api.get("account")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(content=b"<html>", headers={"Content-Type": "text/html"}), "200, but not as Pharos does"),
        (Answer(404, b"<html>", {"Content-Type": "text/html"}), "404, but not as Pharos does"),
        (Answer(content=b"{", headers={"Content-Type": "application/json"}), "not valid JSON"),
        (Answer(content=[1]), "200, but not as Pharos does"),
        (Answer(content={"status": "ok"}), "200, but not as Pharos does"),
        (Answer(502, b"", {}), "it is not available now"),
        (Answer(413, b"<html>", {"Content-Type": "text/html"}), "a proxy in front of it may have refused"),
    ],
)
def test_other_servers_than_pharos_are_reported(
    server: FakeApi, api: Api, answer: Answer, error: str
) -> None:
    server.answers.append(answer)
    with pytest.raises(CommandFailed, match=error):
        api.get("account")


def test_a_warning_goes_to_standard_error(
    server: FakeApi, api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers.append(Answer(content={"data": {}, "warning": "The edges could not be informed."}))
    api.post("keys")
    assert capsys.readouterr().err == "pharos: The edges could not be informed.\n"


def _target(url: str, data: Path | None = None) -> Target:
    return Target(url, TOKEN, "the token", "", data)


def test_an_installation_that_does_not_run_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/api"
    with pytest.raises(InstallationUnreachable, match=f"Nothing listens at http://127.0.0.1:{port}"):
        Api(_target(url)).get("account")
    with pytest.raises(
        InstallationUnreachable, match="Nothing runs on .*--data DIR, or start `pharos up --data"
    ):
        Api(_target(url, tmp_path)).get("account")
    with pytest.raises(InstallationUnreachable, match="is not known"):
        Api(_target("http://no-such-host.invalid/api")).get("account")


def test_a_server_that_does_not_answer_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/api"
        with pytest.raises(InstallationUnreachable, match="took too long"):
            Api(_target(url), seconds=0.1).get("account")


def _answer_with(server: socket.socket, answer: Callable[[socket.socket], object]) -> threading.Thread:
    def run() -> None:
        connection, _ = server.accept()
        with connection:
            answer(connection)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_a_server_that_does_not_speak_http_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet(connection: socket.socket) -> None:
            connection.recv(1000)
            connection.sendall(b"220 mail.example ESMTP\r\n")

        thread = _answer_with(listener, greet)
        with pytest.raises(InstallationUnreachable, match="220 mail.example"):
            Api(_target(f"http://127.0.0.1:{listener.getsockname()[1]}/api")).get("account")
        thread.join()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a certificate for localhost, which is trusted only with SSL_CERT_FILE, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder


def _serve_tls(server: FakeApi, certificate: Path) -> str:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    return f"https://localhost:{server.server_address[1]}/api"


def test_tls_needs_a_trusted_certificate(
    server: FakeApi, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = _serve_tls(server, certificate)
    with pytest.raises(InstallationUnreachable, match="is not trusted: .*SSL_CERT_FILE"):
        Api(_target(url)).get("account")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "other.pem"))
    with pytest.raises(
        InstallationUnreachable, match="SSL_CERT_FILE names .*other.pem, which cannot be read"
    ):
        Api(_target(url)).get("account")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
    server.answers.append(Answer(content={"data": 1}))
    with Api(_target(url)) as api:
        assert api.get("account") == 1
    with pytest.raises(
        InstallationUnreachable, match="is not trusted: .*Hostname mismatch|is not trusted: .*IP address"
    ):
        Api(_target(url.replace("localhost", "127.0.0.1"))).get("account")


def test_tls_where_only_http_is_spoken_is_reported(server: FakeApi) -> None:
    with pytest.raises(InstallationUnreachable, match="does not speak TLS"):
        Api(_target(server.url.replace("http:", "https:"))).get("account")


_IMPORTS = """
import sys
from operator_cli.api.client import Api
from operator_cli.api.target import Target
from operator_cli.errors import CommandFailed
for scheme in sys.argv[1:]:
    try:
        Api(Target(f"{scheme}://127.0.0.1:9/api", "t", "", "")).get("account")
    except CommandFailed as error:
        print("ssl" in sys.modules, error)
"""


def test_only_https_imports_tls() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTS, "http"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("False Nothing listens at")


def test_tls_works_after_http_client_was_imported_without_it(
    server: FakeApi, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This happens in a process that connects to two installations."""
    url = _serve_tls(server, certificate)
    server.answers.append(Answer(content={"data": 1}))
    script = _IMPORTS + (f"print(Api(Target({url!r}, 't', '', '')).get('account'))\n")
    done = subprocess.run(
        [sys.executable, "-c", script, "http"],
        capture_output=True, text=True,
        env={"SSL_CERT_FILE": str(certificate / "cert.pem"), "PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert done.stdout.splitlines()[-1:] == ["1"], done.stderr


def test_a_request_that_http_cannot_carry_is_refused(server: FakeApi) -> None:
    target = Target(server.url, "phr_pat_\nX-Evil: 1", "the token", "")
    with pytest.raises(InstallationUnreachable) as refused:
        Api(target).get("account")
    assert "phr_pat" not in str(refused.value)
    assert server.requests == []


@pytest.mark.parametrize("segment", ["", ".", ".."])
def test_a_name_that_would_lead_elsewhere_is_refused(server: FakeApi, api: Api, segment: str) -> None:
    with pytest.raises(UsageError, match="neither a name nor an ID"):
        api.delete("projects", segment)
    assert server.requests == []


def _tunnel(listener: socket.socket, server: FakeApi, heads: list[bytes]) -> None:
    """Serve one CONNECT as a proxy does."""
    client, _ = listener.accept()
    head = b""
    while b"\r\n\r\n" not in head:
        head += client.recv(1000)
    heads.append(head)
    if b"c2VjcmV0" in head:
        client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        client.close()
        return
    client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
    upstream = socket.create_connection(server.server_address[:2])

    def copy(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    with client, upstream:
        back = threading.Thread(target=copy, args=(upstream, client))
        back.start()
        copy(client, upstream)
        back.join()


def test_https_goes_through_a_proxy_that_does_not_see_the_token(
    server: FakeApi, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = _serve_tls(server, certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    heads: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = f"127.0.0.1:{listener.getsockname()[1]}"
        for user, fails in (("ada:x", False), ("secret", True)):
            monkeypatch.setenv("https_proxy", f"http://{user}@{proxy}")
            thread = threading.Thread(target=_tunnel, args=(listener, server, heads))
            thread.start()
            with Api(_target(url)) as api:
                if fails:
                    with pytest.raises(
                        InstallationUnreachable, match=f"through the proxy {proxy} .*407"
                    ) as failed:
                        api.get("account")
                    assert "secret" not in str(failed.value)
                else:
                    server.answers.append(Answer(content={"data": 1}))
                    assert api.get("account") == 1
            thread.join()
    assert heads[0].startswith(f"CONNECT localhost:{server.server_address[1]} HTTP/1".encode())
    assert TOKEN.encode() not in b"".join(heads)
    # The proxy has ended, and is not used.
    monkeypatch.setenv("no_proxy", "localhost")
    server.answers.append(Answer(content={"data": 2}))
    with Api(_target(url)) as api:
        assert api.get("account") == 2
    monkeypatch.setenv("https_proxy", "socks5://proxy.example")
    monkeypatch.delenv("no_proxy")
    with pytest.raises(CommandFailed, match="HTTPS_PROXY is not an address"):
        Api(_target(url)).get("account")
