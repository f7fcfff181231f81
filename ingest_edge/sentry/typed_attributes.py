"""Attributes of logs and streamed spans: `{"name": {"value": …, "type": …}}`."""

from collections.abc import Mapping
from typing import Any

from ingest_edge.sentry.values import Source, as_dict, as_text, make_source


def read_typed(attributes: Any) -> dict[str, Any]:
    """Return the values by name."""
    return {
        name: typed.get("value") for name, typed in as_dict(attributes).items() if isinstance(typed, dict)
    }


def split_source(
    attributes: Mapping[str, Any], sdk: Mapping[str, Any], platform: str
) -> tuple[Source, dict[str, Any]]:
    """Return the source that the attributes describe, and the other attributes. `sdk` is from the envelope's header."""
    rest = dict(attributes)

    def take(name: str) -> str:
        return as_text(rest.pop(name, None))

    service, release, environment = take("service.name"), take("sentry.release"), take("sentry.environment")
    host, sdk_name, sdk_version = take("server.address"), take("sentry.sdk.name"), take("sentry.sdk.version")
    sdk_name = sdk_name or as_text(sdk.get("name"))
    source = make_source(
        service=service,
        release=release,
        environment=environment,
        host=host,
        sdk=sdk_name,
        sdk_version=sdk_version or as_text(sdk.get("version")),
        platform=platform or _platform_of(sdk_name),
    )
    return source, rest


def _platform_of(sdk: str) -> str:
    """Return the platform in the name of an SDK: `sentry.python.flask`, `sentry.javascript.node`."""
    parts = sdk.split(".")
    if len(parts) < 2 or parts[0] != "sentry":
        return ""
    return "node" if parts[1:3] == ["javascript", "node"] else parts[1]
