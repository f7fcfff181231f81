"""The destination and the batching of events, from arguments or the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit, urlunsplit

URL_VARIABLE = "PHAROS_URL"
KEY_VARIABLE = "PHAROS_INGEST_KEY"
ENVIRONMENT_VARIABLE = "PHAROS_ENVIRONMENT"
# The standard name of OpenTelemetry, so that events and spans of one process have the same service.
SERVICE_VARIABLE = "OTEL_SERVICE_NAME"
RELEASE_VARIABLE = "PHAROS_RELEASE"


@dataclass(frozen=True)
class Settings:
    """Settings of a client. Sizes are in bytes, times in seconds.

    `host`: origin of the platform with an optional path prefix, without `/api`; empty if there is none.
    """

    host: str = ""
    key: str = ""
    environment: str = ""
    service: str = ""
    release: str = ""
    batch_events: int = 500
    batch_bytes: int = 1024 * 1024
    batch_seconds: float = 2.0
    buffer_events: int = 10_000
    buffer_bytes: int = 32 * 1024 * 1024
    request_seconds: float = 10.0
    shutdown_seconds: float = 5.0

    @property
    def api(self) -> str:
        """Root of the API."""
        return f"{self.host}/api"

    @property
    def is_complete(self) -> bool:
        """True if there is an address and an ingest key."""
        return bool(self.host and self.key)


def read_settings(
    url: str | None = None,
    key: str | None = None,
    *,
    environment: str | None = None,
    service: str | None = None,
    release: str | None = None,
    variables: Mapping[str, str] | None = None,
) -> Settings:
    """Return settings from the arguments, or else from environment variables.

    `url` may contain the ingest key: `https://phr_ing_…@pharos.example`. Raises `ValueError` for a `url` that is not an
    http address; the message does not contain the URL.
    """
    known = os.environ if variables is None else variables
    host, key_in_url = split_url(url or known.get(URL_VARIABLE, ""))
    return Settings(
        host=host,
        key=(key or key_in_url or _key_of_environment(known, host)).strip(),
        environment=environment if environment is not None else known.get(ENVIRONMENT_VARIABLE, ""),
        service=service if service is not None else known.get(SERVICE_VARIABLE, ""),
        release=release if release is not None else known.get(RELEASE_VARIABLE, ""),
    )


def _key_of_environment(known: Mapping[str, str], host: str) -> str:
    """Return the key in the environment variables, unless they name another server, which must not get the key."""
    try:
        own_host, _ = split_url(known.get(URL_VARIABLE, ""))
    except ValueError:
        return ""
    return known.get(KEY_VARIABLE, "") if own_host in ("", host) else ""


def split_url(url: str) -> tuple[str, str]:
    """Return the address without `/api`, and the key in it; two empty strings for an empty text.

    Raises `ValueError` for text that is not an http address.
    """
    text = url.strip()
    if not text:
        return "", ""
    try:
        parts = urlsplit(text)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_address = False
    if not is_address:
        raise ValueError(f"{URL_VARIABLE} must be an address like https://pharos.example")
    path = parts.path.rstrip("/")
    if path.endswith("/api"):
        path = path[: -len("/api")]
    host = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, "", ""))
    return host, unquote(parts.username or "")
