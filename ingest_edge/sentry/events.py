"""Convert an event to a batch with one telemetry event of the type `exception`, which is grouped into an issue."""

import hashlib
import re
from typing import Any

import orjson

from ingest_edge.sentry.stack_traces import frames_of, write_stack_trace
from ingest_edge.sentry.values import (
    Source,
    as_dict,
    as_hex,
    as_list,
    as_nanoseconds,
    as_rfc3339,
    as_tags,
    as_text,
    json_text,
    make_source,
)

_LEVELS = {
    "fatal": "critical",
    "critical": "critical",
    "error": "error",
    "warning": "warning",
    "warn": "warning",
    "info": "info",
    "log": "info",
    "debug": "debug",
}
# In the order of importance to a reader: if an event would be too large, the last parts are left out.
_PAYLOAD = ("user", "request", "contexts", "extra", "breadcrumbs", "exception", "threads", "sdk", "modules")
_STACK = 64 * 1024
_MESSAGE = 8 * 1024
_FINGERPRINT = 4096
_FINGERPRINT_PART = 500
_MAX_TAGS = 100
_MAX_KEY = 200
# Bytes for the names and the quotes of the event besides its texts.
_EVENT_ROOM = 4096
_DEFAULT_FINGERPRINT = re.compile(r"\{\{\s*default\s*\}\}")


def source_of_event(event: dict[str, Any]) -> Source:
    """Return the application that sent an event or a transaction."""
    tags = dict(as_tags(event.get("tags")))
    sdk = as_dict(event.get("sdk"))
    resource = as_dict(as_dict(as_dict(event.get("contexts")).get("otel")).get("resource"))
    return make_source(
        service=as_text(tags.get("service.name"))
        or as_text(tags.get("service"))
        or as_text(resource.get("service.name")),
        release=as_text(event.get("release")),
        environment=as_text(event.get("environment")),
        host=as_text(event.get("server_name")),
        sdk=as_text(sdk.get("name")),
        sdk_version=as_text(sdk.get("version")),
        platform=as_text(event.get("platform")),
    )


def id_of_event(event: dict[str, Any], header: dict[str, Any], payload: bytes) -> str:
    """Return the ID of an event: the one in the event, else that of its envelope, else one derived from the content."""
    found = as_hex(event.get("event_id"), 32) or as_hex(header.get("event_id"), 32)
    return found or hashlib.sha256(payload).hexdigest()[:32]


def user_of_event(event: dict[str, Any]) -> str:
    """Return the identifier of the user, chosen as Sentry does, but never an IP address."""
    user = as_dict(event.get("user"))
    return next((text for name in ("id", "username", "email") if (text := as_text(user.get(name)))), "")


def convert_event(event: dict[str, Any], event_id: str, batch_id: str, max_bytes: int) -> bytes:
    """Return the body of the batch, which should have at most `max_bytes`: the stack trace is cut, and parts of the
    payload that do not fit are left out, and named in the attribute `sentry.left_out`. It has more bytes if the other
    texts alone exceed the limit."""
    platform = as_text(event.get("platform")) or "other"
    source = source_of_event(event)
    exceptions = [each for each in as_list(event.get("exception")) if isinstance(each, dict)]
    if not exceptions and isinstance(event.get("exception"), dict) and "values" not in event["exception"]:
        exceptions = [event["exception"]]
    raised = exceptions[-1] if exceptions else {}
    message = _message(event)
    title = as_text(raised.get("value"), _MESSAGE) or message or as_text(raised.get("type"))
    trace = as_dict(as_dict(event.get("contexts")).get("trace"))
    time = as_nanoseconds(event.get("timestamp"))
    attributes = _attributes(event, source, raised, platform)
    converted: dict[str, Any] = {
        "type": "exception",
        "id": event_id,
        "severity": _LEVELS.get(as_text(event.get("level")).lower(), "error"),
        "name": as_text(raised.get("type")) or None,
        "title": title or "(no message)",
        "timestamp": None if time is None else as_rfc3339(time),
        "trace_id": as_hex(trace.get("trace_id"), 32) or None,
        "span_id": as_hex(trace.get("span_id"), 16) or None,
        "parent_span_id": as_hex(trace.get("parent_span_id"), 16) or None,
        "route": as_text(event.get("transaction"), 500) or None,
        "url": as_text(as_dict(event.get("request")).get("url"), 2000) or None,
        "service": source.service,
        "fingerprint": _fingerprint(event, raised, exceptions) or None,
        "details": _cut_middle(write_stack_trace(event, exceptions, platform), _STACK) or None,
        "attributes": attributes,
    }
    room = max_bytes - len(orjson.dumps(converted)) - _EVENT_ROOM
    if room < 0 and (details := converted["details"]):
        # Characters may have several bytes: each removed character frees at least one byte.
        converted["details"] = _cut_middle(details, max(0, len(details) + room)) or None
    payload, left_out = _payload(event, room)
    if left_out:
        attributes["sentry.left_out"] = ", ".join(left_out)
    converted["payload"] = payload
    return orjson.dumps({"batch_id": batch_id, "events": [converted]})


def _message(event: dict[str, Any]) -> str:
    for holder in (event.get("logentry"), event.get("message")):
        if isinstance(holder, dict):
            if text := as_text(holder.get("formatted"), _MESSAGE) or as_text(holder.get("message"), _MESSAGE):
                return text
        elif text := as_text(holder, _MESSAGE):
            return text
    return ""


def _attributes(
    event: dict[str, Any], source: Source, raised: dict[str, Any], platform: str
) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for key, value in as_tags(event.get("tags")):
        if len(attributes) < _MAX_TAGS and (text := as_text(value)):
            attributes[key[:_MAX_KEY]] = text
    mechanism = as_dict(raised.get("mechanism"))
    handled = mechanism.get("handled")
    named = {
        "exception.type": as_text(raised.get("type")),
        "user.id": user_of_event(event),
        "service.version": source.version,
        "deployment.environment.name": source.environment,
        "host.name": source.host,
        "logger": as_text(event.get("logger")),
        "sentry.release": as_text(event.get("release")),
        "sentry.platform": platform,
        "sentry.sdk": f"{source.sdk} {source.sdk_version}".strip(),
        "sentry.mechanism": as_text(mechanism.get("type")),
    }
    attributes.update({name: text for name, text in named.items() if text})
    if isinstance(handled, bool):
        attributes["sentry.handled"] = handled
    return attributes


def _fingerprint(event: dict[str, Any], raised: dict[str, Any], exceptions: list[dict[str, Any]]) -> str:
    """Return the fingerprint that groups the event; empty to group by type, message and innermost frame.

    This is the sender's fingerprint, in which `{{ default }}` is replaced by type and innermost function, or the
    template of a message whose parameters vary.
    """
    parts = event.get("fingerprint")
    if isinstance(parts, list) and parts:
        texts = [as_text(part, _FINGERPRINT_PART) for part in parts[:20]]
        if not all(_DEFAULT_FINGERPRINT.fullmatch(text) for text in texts):
            frames = frames_of(raised)
            innermost = as_text(frames[-1].get("function")) if frames else ""
            default = f"{as_text(raised.get('type')) or _template(event)}:{innermost}"
            # Cut again: a part may contain the default 45 times.
            filled = [_DEFAULT_FINGERPRINT.sub(lambda _: default, text)[:_FINGERPRINT_PART] for text in texts]
            return "\n".join(filled)[:_FINGERPRINT]
    return "" if exceptions else _template(event)


def _template(event: dict[str, Any]) -> str:
    """Return the message with placeholders, if the event names its parameters; else an empty text."""
    for holder in (event.get("logentry"), event.get("message")):
        if isinstance(holder, dict) and holder.get("params"):
            return as_text(holder.get("message"), 1000)
    return ""


def _payload(event: dict[str, Any], room: int) -> tuple[dict[str, Any], list[str]]:
    """Return the parts of the event that fit into `room` bytes, and the names of the others."""
    payload: dict[str, Any] = {}
    left_out = []
    for name in _PAYLOAD:
        part = event.get(name)
        if not part:
            continue
        text = json_text(part)
        if text is None or (size := len(text.encode()) + len(name) + 4) > room:
            left_out.append(name)
            continue
        room -= size
        payload[name] = orjson.Fragment(text)
    return payload, left_out


def _cut_middle(text: str, limit: int) -> str:
    half = limit // 2
    return text if len(text) <= limit else f"{text[:half]}\n…\n{text[len(text) - half :]}"
