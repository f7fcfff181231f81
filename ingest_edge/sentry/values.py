"""Read values of Sentry's JSON, whose types vary by SDK, and write them as OTLP."""

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson

MAX_TEXT = 255
"""Characters of a name, a tag or a version that are kept."""

_MAX_INT64 = 2**63
_LATEST_SECONDS = 9_000_000_000.0


class Source(NamedTuple):
    """The application that sent a record: the attributes of an OTLP resource."""

    service: str
    version: str
    environment: str
    host: str
    sdk: str
    sdk_version: str
    language: str

    def attributes(self) -> list[dict[str, Any]]:
        """Return the attributes of the resource, without empty ones."""
        named = zip(_RESOURCE_NAMES, self, strict=True)
        return [{"key": name, "value": {"stringValue": value}} for name, value in named if value]


_RESOURCE_NAMES = (
    "service.name",
    "service.version",
    "deployment.environment.name",
    "host.name",
    "telemetry.sdk.name",
    "telemetry.sdk.version",
    "telemetry.sdk.language",
)
_LANGUAGES = {"javascript": "webjs", "node": "nodejs", "csharp": "dotnet"}


def make_source(
    *, service: str, release: str, environment: str, host: str, sdk: str, sdk_version: str, platform: str
) -> Source:
    """Return the source. The name of its service is `service`, else the package of the release (`shop@1.2.3`), else
    `unknown_service`, as OpenTelemetry calls it."""
    package, at, version = release.partition("@")
    if not at:
        package, version = "", release
    service = service or package or (f"unknown_service:{platform}" if platform else "unknown_service")
    return Source(service, version, environment, host, sdk, sdk_version, _LANGUAGES.get(platform, platform))


def as_dict(value: Any) -> dict[str, Any]:
    """Return a JSON object, or an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return a list, which older SDKs wrap as `{"values": […]}`; an empty one for any other value."""
    if isinstance(value, dict):
        value = value.get("values")
    return value if isinstance(value, list) else []


def as_text(value: Any, limit: int = MAX_TEXT) -> str:
    """Return at most `limit` characters of a text or a number; an empty text for any other value."""
    if isinstance(value, str):
        return value[:limit]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)[:limit]
    return ""


def as_tags(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the tags of an object, or of a list of pairs."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        for pair in value:
            if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str):
                yield pair[0], pair[1]


def as_nanoseconds(value: Any) -> int | None:
    """Return a time, in seconds since 1970 or by RFC 3339, as nanoseconds since 1970; None for any other value.

    Exact to the microsecond, which is the resolution of the SDKs.
    """
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            value = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 < value < _LATEST_SECONDS:
        return None
    return round(value * 1e6) * 1000


def as_rfc3339(nanoseconds: int) -> str:
    """Return a time as RFC 3339, to the microsecond."""
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).isoformat()


def as_hex(value: Any, digits: int) -> str:
    """Return an ID of the given number of hexadecimal digits in lower case, without the dashes of a UUID; an empty text
    for any other value, and for zeros."""
    if not isinstance(value, str) or len(value) > 64:
        return ""
    text = value.replace("-", "").lower()
    if len(text) != digits or not text.isascii() or not text.isalnum():
        return ""
    try:
        return text if int(text, 16) else ""
    except ValueError:
        return ""


def otlp_attributes(pairs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return attributes, without those that have no value or a value that is nested too deeply."""
    return [
        {"key": key, "value": value}
        for key, given in pairs.items()
        if (value := otlp_value(given)) is not None
    ]


def otlp_value(value: Any) -> dict[str, Any] | None:
    """Return an OTLP value; lists and objects are written as JSON text. None for no value."""
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": value} if -_MAX_INT64 <= value < _MAX_INT64 else {"doubleValue": float(value)}
    if isinstance(value, float):
        return {"doubleValue": value} if math.isfinite(value) else None
    text = json_text(value)
    return None if text is None else {"stringValue": text}


def json_text(value: Any) -> str | None:
    """Return a list or an object as JSON; None for no value, and for one that is nested too deeply."""
    if value is None:
        return None
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        return None
