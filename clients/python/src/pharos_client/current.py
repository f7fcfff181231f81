"""The client of the process."""

from __future__ import annotations

from pharos_client.client import Client
from pharos_client.diagnostics import warn
from pharos_client.settings import Settings, read_settings

_client: Client | None = None


def init(
    url: str | None = None,
    key: str | None = None,
    *,
    environment: str | None = None,
    service: str | None = None,
    release: str | None = None,
    exception_hooks: bool = False,
) -> Client:
    """Create the client of this process and return it. An existing client with the same settings is kept, any other is
    closed.

    `url`: address of Pharos, which may contain the key (`https://phr_ing_…@pharos.example`). `key`: an ingest key.
    Absent arguments come from PHAROS_URL, PHAROS_INGEST_KEY, PHAROS_ENVIRONMENT, OTEL_SERVICE_NAME and PHAROS_RELEASE.
    `exception_hooks`: report uncaught exceptions. Raises `ValueError` for an address that is not http.
    """
    global _client
    settings = read_settings(url, key, environment=environment, service=service, release=release)
    former = _client
    if former is None or former.settings != settings or not former.is_enabled:
        _client = Client(settings)
        if former is not None:
            former.close()
    assert _client is not None
    if exception_hooks:
        _client.install_exception_hooks()
    return _client


def get_client() -> Client:
    """Return the client of this process. Without a call of `init`, it is made from the environment.

    If PHAROS_URL is no address, nothing is sent, and a warning is logged.
    """
    global _client
    if _client is None:
        try:
            return init()
        except ValueError as error:
            warn("settings", f"Nothing is sent: {error}.")
            _client = Client(Settings())
    return _client
