"""The DSN with which Sentry's SDKs send to an environment."""

from typing import Final
from urllib.parse import urlsplit

_NUMBER: Final = 1
"""SDKs insist on a number of the project. The edge accepts any: the key names the environment."""


def make_sentry_dsn(base_url: str, ingest_key: str) -> str:
    """Return `https://INGEST_KEY@HOST/1` for the API at `base_url`, which ends in `/api`."""
    parts = urlsplit(base_url.removesuffix("/").removesuffix("/api"))
    return f"{parts.scheme}://{ingest_key}@{parts.netloc}{parts.path}/{_NUMBER}"
