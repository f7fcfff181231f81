"""Checks the syntax of destinations of channels: URLs, addresses, keys.

Each check returns None or a fault, worded to follow the name of the field. No fault repeats the value, which may be a
secret.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

MAX_URL_LENGTH = 2000
MAX_SIGNING_SECRETS = 3
"""The current secret and the secrets that it replaces."""

_EMAIL = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)*[A-Za-z0-9-]{1,63}")
_TOPIC = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CHAT = re.compile(r"-?[0-9]{1,20}|@[A-Za-z][A-Za-z0-9_]{3,63}")
_NUMBER = re.compile(r"[1-9][0-9]{0,15}")
_BOT_TOKEN = re.compile(r"[0-9]{3,20}:[A-Za-z0-9_-]{20,100}")
_ROUTING_KEY = re.compile(r"[A-Za-z0-9]{32}")
_SIGNING_SECRET = re.compile(r"whsec_([A-Za-z0-9+/]+={0,2})")


def find_http_url_fault(value: str) -> str | None:
    """Check an absolute URL of HTTP: host, no user or password, no spaces."""
    if re.search(r"[^\x21-\x7e]", value):
        return "must contain neither spaces nor characters outside ASCII; write them as %20 or xn--…"
    if "\\" in value:
        return "must not contain a backslash"
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        return "must be a URL like https://example.org/path"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "must be a URL that starts with https:// or http://"
    if "@" in parts.netloc:
        return "must not contain a user or a password"
    if port == 0:
        return "must not have the port 0"
    try:
        # The HTTP client and the DNS lookup have the same rule: no label is empty or has over 63 characters.
        parts.hostname.encode("idna").decode("idna")
    except UnicodeError:
        return "must have a valid name or address of a host"
    return None


def find_email_fault(value: str) -> str | None:
    """Check one bare address, `ops@example.org`."""
    local = value.partition("@")[0]
    if _EMAIL.fullmatch(value) is None or local.startswith(".") or local.endswith(".") or ".." in local:
        return "must be one e-mail address like ops@example.org, in ASCII"
    return None


def read_signing_secrets(value: str) -> list[bytes]:
    """Return the keys of `whsec_…` secrets that are separated by spaces. Raises `ValueError` with the fault."""
    words = value.split()
    if not 1 <= len(words) <= MAX_SIGNING_SECRETS:
        raise ValueError(f"must be one secret, or up to {MAX_SIGNING_SECRETS} separated by spaces")
    keys = []
    for word in words:
        match = _SIGNING_SECRET.fullmatch(word)
        try:
            key = base64.b64decode(match[1], validate=True) if match else b""
        except binascii.Error:
            key = b""
        if not 24 <= len(key) <= 64:
            raise ValueError("must be whsec_ followed by 24 to 64 bytes in base64")
        keys.append(key)
    return keys


def _find_signing_secret_fault(value: str) -> str | None:
    try:
        read_signing_secrets(value)
    except ValueError as error:
        return str(error)
    return None


def _find_header_fault(value: str) -> str | None:
    return None if re.fullmatch(r"[\x20-\x7e]+", value) else "must be one line of printable ASCII"


def _find_apprise_fault(value: str) -> str | None:
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]{1,39}://[\x21-\x7e]+", value) is None:
        return "must be an Apprise URL like matrixs://token@example.org/!room, in ASCII without spaces"
    return None


def _matching(pattern: re.Pattern[str], fault: str) -> Callable[[str], str | None]:
    return lambda value: None if pattern.fullmatch(value) else fault


FORMATS: Mapping[str, Callable[[str], str | None]] = {
    "http-url": find_http_url_fault,
    "email": find_email_fault,
    "signing-secret": _find_signing_secret_fault,
    "header": _find_header_fault,
    "apprise-url": _find_apprise_fault,
    "ntfy-topic": _matching(_TOPIC, "must be 1 to 64 letters, digits, _ or -"),
    "telegram-chat": _matching(
        _CHAT, "must be the number of a chat like -1001234567890, or @name of a public channel"
    ),
    "telegram-token": _matching(_BOT_TOKEN, "must be the token of a bot, 123456:ABC…, as BotFather shows it"),
    "number": _matching(_NUMBER, "must be a number"),
    "pagerduty-key": _matching(_ROUTING_KEY, "must be an integration key of 32 letters and digits"),
}
"""Checks by the name that a field of a channel type has in its `Meta`."""
