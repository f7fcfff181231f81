"""A certificate of a private authority for servers of tests, and the contexts that use it."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from tests.support.certificates import make_certificate


@dataclass(frozen=True)
class Certificates:
    """The context of a server for `receiver.test` and 127.0.0.1, and of a client that trusts it."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def make_certificates(folder: Path) -> Certificates:
    """Write a key and a certificate into the folder."""
    certificate, key = make_certificate(["receiver.test"])
    path = folder / "certificate.pem"
    path.write_bytes(key + certificate)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(path)
    return Certificates(server, ssl.create_default_context(cafile=str(path)))
