"""HTTP/1.1 to one installation, by the standard library: importing an HTTP library costs more CPU than a command."""

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from operator_cli.api.answer import parse_answer
from operator_cli.errors import CommandFailed

if TYPE_CHECKING:
    import http.client

_CONNECT_SECONDS: Final = 10.0
RESPONSE_SECONDS: Final = 120.0
"""How long a response may take, and the usual time limit of reads."""
_MAX_BYTES: Final = 128 * 1024 * 1024
_CHUNK_BYTES: Final = 256 * 1024


class ConnectionFailed(Exception):
    """There was no response: the connection was refused or broken, took too long, or the server did not speak HTTP."""

    def __init__(self, cause: Exception, *, was_sent: bool, proxy: str | None = None) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.proxy = proxy
        """Host and port of the proxy that did not connect; None for another failure."""
        self.was_sent = was_sent
        """True if the installation may have received the request."""

    @property
    def is_broken(self) -> bool:
        """True if the installation ended the connection without a response, as after a restart or with a stale
        connection."""
        return self.was_sent and (
            isinstance(self.cause, ConnectionError) or type(self.cause).__name__ == "IncompleteRead"
        )


@dataclass(frozen=True, slots=True)
class Response:
    """Status, headers (names in lower case) and JSON document of a response; None for an empty body."""

    status: int
    headers: Mapping[str, str]
    document: Any

    @property
    def data(self) -> Any:
        """The `data` of the document; None if it has none."""
        return self.document.get("data") if isinstance(self.document, dict) else None

    @property
    def etag(self) -> str | None:
        """The version of the object, for `etag` of the next `Api.patch`."""
        return self.headers.get("etag")


class Connection:
    """A connection to the origin of `base_url` that is opened on the first request and kept for the next ones."""

    def __init__(self, base_url: str, seconds: float = RESPONSE_SECONDS) -> None:
        """`seconds` is the time limit of each read, and of connecting if that is less than its own limit."""
        parts = urlsplit(base_url)
        self._is_tls = parts.scheme == "https"
        self._address = (parts.hostname or "", parts.port or (443 if self._is_tls else 80))
        self._root = parts.path.rstrip("/")
        self._seconds = seconds
        self._open: http.client.HTTPConnection | None = None

    def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        """Send a request and read its whole response. Raises `ConnectionFailed`."""
        return self.read(self.send(method, target, headers, body))

    def read(self, response: "http.client.HTTPResponse") -> Response:
        """Read the rest of a response of `send`. Raises `ConnectionFailed`."""
        try:
            content = _read_body(response)
        except connection_errors() as error:
            self.close()
            raise ConnectionFailed(error, was_sent=True) from None
        if response.will_close:
            self.close()
        return Response(response.status, _lower_names(response), _parse(response, content))

    def send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> "http.client.HTTPResponse":
        """Send a request and return its response before the body is read.

        The response has to be read to its end, or the connection closed. Raises `ConnectionFailed`.
        """
        was_sent = False
        try:
            connection = self._open or self._connect()
            connection.sock.settimeout(self._seconds)
            was_sent = True
            connection.request(method, self._root + target, body=body, headers=dict(headers))
            return connection.getresponse()
        except connection_errors() as error:
            self.close()
            raise ConnectionFailed(error, was_sent=was_sent) from None
        except _ProxyFailed as error:
            raise ConnectionFailed(error.cause, was_sent=False, proxy=error.proxy) from None

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._open is not None:
            self._open.close()
        self._open = None

    def _connect(self) -> "http.client.HTTPConnection":
        client = import_http_client(with_tls=self._is_tls)
        proxy = _find_proxy(self._address[0]) if self._is_tls else None
        seconds = min(_CONNECT_SECONDS, self._seconds)
        connection: http.client.HTTPConnection = client.HTTPConnection(
            *(self._address if proxy is None else proxy.address), timeout=seconds
        )
        if proxy is None:
            connection.connect()
        else:
            # The proxy forwards the encrypted bytes: it sees the host, but neither the token nor the request.
            connection.set_tunnel(*self._address, headers=dict(proxy.headers))
            try:
                connection.connect()
            except connection_errors() as error:
                connection.close()
                raise _ProxyFailed(error, f"{proxy.address[0]}:{proxy.address[1]}") from None
        if self._is_tls:
            import ssl

            # Not `HTTPSConnection`, which `http.client` lacks if it was imported without TLS.
            context = ssl.create_default_context()
            context.set_alpn_protocols(["http/1.1"])
            # This leaves the port out of the Host header.
            connection.default_port = 443
            connection.sock = context.wrap_socket(connection.sock, server_hostname=self._address[0])
        self._open = connection
        return connection


class _Proxy(NamedTuple):
    """Host, port and credentials of a proxy."""

    address: tuple[str, int]
    headers: Mapping[str, str]


class _ProxyFailed(Exception):
    """The proxy did not connect."""

    def __init__(self, cause: Exception, proxy: str) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.proxy = proxy


def _find_proxy(host: str) -> _Proxy | None:
    """Return the proxy that `HTTPS_PROXY` names, unless `NO_PROXY` has the host. Raises `CommandFailed`."""
    names = ("https_proxy", "HTTPS_PROXY")
    url = next((os.environ[name] for name in names if os.environ.get(name)), None)
    if url is None:
        return None
    # Imported here because it takes 10 ms, and few people have a proxy.
    from base64 import b64encode
    from urllib.parse import unquote
    from urllib.request import proxy_bypass

    if proxy_bypass(host):
        return None
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        address = (parts.hostname or "", parts.port or 80)
    except ValueError:
        raise CommandFailed("HTTPS_PROXY is not an address like http://proxy.example:3128.") from None
    if parts.scheme != "http" or not address[0]:
        raise CommandFailed("HTTPS_PROXY is not an address like http://proxy.example:3128.")
    if parts.username is None:
        return _Proxy(address, {})
    credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    return _Proxy(address, {"Proxy-Authorization": f"Basic {b64encode(credentials).decode()}"})


def import_http_client(*, with_tls: bool) -> Any:
    """Return `http.client`, which imports `ssl` if it can: that takes 6 ms, and plain HTTP does not need it."""
    if with_tls or "ssl" in sys.modules or "http.client" in sys.modules:
        import http.client

        return http.client
    sys.modules["ssl"] = None  # type: ignore[assignment]
    try:
        import http.client

        return http.client
    finally:
        del sys.modules["ssl"]


def connection_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that connections raise.

    `ValueError` is raised for a URL or header that HTTP cannot carry.
    """
    client = sys.modules.get("http.client")
    return (OSError, ValueError) if client is None else (OSError, ValueError, client.HTTPException)


def _read_body(response: "http.client.HTTPResponse") -> bytes:
    """Return the body. Raises `HTTPException`, and `OSError` also for a body that is too large."""
    ends_at = time.monotonic() + RESPONSE_SECONDS
    body = bytearray()
    while chunk := response.read1(_CHUNK_BYTES):
        body += chunk
        if len(body) > _MAX_BYTES:
            raise OSError(f"its response has more than {_MAX_BYTES:,} bytes")
        if time.monotonic() > ends_at:
            raise TimeoutError(f"not complete within {RESPONSE_SECONDS:g} s")
    if response.length:
        raise ConnectionResetError("the connection ended within the response")
    # `read1` leaves the response open at its end, and the connection accepts no request until the response is closed.
    response.close()
    return bytes(body)


def _parse(response: "http.client.HTTPResponse", content: bytes) -> Any:
    """Return the JSON document of a body, None for an empty one or another type. Raises `CommandFailed`."""
    kind = response.headers.get_content_type()
    if not content or not (kind == "application/json" or kind.endswith("+json")):
        return None
    try:
        return parse_answer(content)
    except ValueError:
        raise CommandFailed("The response is not valid JSON. Check the URL of the installation.") from None


def _lower_names(response: "http.client.HTTPResponse") -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}
