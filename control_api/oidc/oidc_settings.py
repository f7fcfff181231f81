"""The settings of the OpenID Connect provider."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from control_domain.notifications.destination_formats import find_http_url_fault
from pipeline_contracts.settings import PREFIX, BadSettings, Settings

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """A provider, and the credentials of this installation at it."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    name: str
    """The provider's name on the button of the sign-in page."""
    redirect_url: str
    allow_private: bool


def read_oidc_settings(settings: Settings) -> OidcSettings | None:
    """Return the provider, or None without `PHAROS_OIDC_ISSUER`. Raises `BadSettings`."""
    if settings.oidc_issuer is None:
        return None
    issuer = settings.oidc_issuer
    fault = find_http_url_fault(issuer)
    parts = urlsplit(issuer)
    if fault is None and parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        fault = "must start with https://"
    if fault is None and (parts.query or parts.fragment):
        fault = "must have neither a query nor a fragment"
    if fault is not None:
        raise BadSettings(f"{PREFIX}OIDC_ISSUER: {fault}")
    required = {
        "OIDC_CLIENT_ID": settings.oidc_client_id,
        "OIDC_CLIENT_SECRET": settings.oidc_client_secret,
        "PUBLIC_URL": settings.public_url,
    }
    if missing := [f"{PREFIX}{name}" for name, value in required.items() if value is None]:
        raise BadSettings(f"{PREFIX}OIDC_ISSUER needs {', '.join(missing)} as well")
    return OidcSettings(
        issuer,
        settings.oidc_client_id or "",
        settings.oidc_client_secret or "",
        settings.oidc_name,
        f"{(settings.public_url or '').rstrip('/')}/api/v1/session/oidc/callback",
        settings.oidc_private_addresses,
    )
