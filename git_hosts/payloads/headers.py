"""Reads the headers of deliveries. One that is there twice is refused: other programs on the way may have read the
other one."""

import re

from git_hosts.interface import Headers
from git_hosts.payloads.unusable import unusable
from pipeline_contracts.errors import BadSignature

_DELIVERY = re.compile(r"[\x20-\x7e]{1,255}")
_EVENT = re.compile(r"[\x20-\x7e]{1,100}")


def proof_header(headers: Headers, name: str, advice: str) -> str:
    """The header that proves who has sent the delivery. Raises `BadSignature`, with the advice where it is missing."""
    values = headers.get(name.lower(), ())
    if not values:
        raise BadSignature(f"The header {name} is missing. {advice}")
    if len(values) > 1:
        raise BadSignature(f"The header {name} is there {len(values)} times: send it once.")
    return values[0]


def one_header(headers: Headers, name: str) -> str | None:
    """The header's only value; None: it is missing. Raises `PayloadNotUsable`."""
    values = headers.get(name.lower(), ())
    if len(values) > 1:
        raise unusable(name, f"is there {len(values)} times", "Send it once.")
    return values[0] if values else None


def event_header(headers: Headers, name: str) -> str:
    """The event as the host calls it. Raises `PayloadNotUsable`."""
    event = one_header(headers, name)
    if event is None:
        raise unusable(name, "is missing", "It has to name the event.")
    if _EVENT.fullmatch(event) is None:
        raise unusable(name, "must be 1 to 100 printable ASCII characters")
    return event


def delivery_header(headers: Headers, *names: str) -> str | None:
    """The first of these headers that is there; None: none of them is. Raises `PayloadNotUsable`."""
    for name in names:
        delivery = one_header(headers, name)
        if delivery is None:
            continue
        if _DELIVERY.fullmatch(delivery) is None:
            raise unusable(name, "must be 1 to 255 printable ASCII characters")
        return delivery
    return None
