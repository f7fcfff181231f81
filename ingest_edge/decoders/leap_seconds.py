"""Replaces leap seconds in the events of a body, only after the decoder, which knows none, has refused the body."""

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ingest_edge.decoders.raw_events import TooManyEvents, split_events
from pipeline_contracts.leap_seconds import replace_leap_second


class _Body(msgspec.Struct, gc=False):
    events: Raw
    batch_id: Raw | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Body).decode
_MARK = b":60"


def replace_leap_seconds(body: bytes, name: str, most: int) -> bytes | None:
    """The body with leap seconds in the member `name` of its events, `most` at most, replaced by the following second.

    None where there is nothing to replace. Members that nobody reads are left out.
    """
    if _MARK not in body:
        return None
    try:
        whole = _decode(body)
        events = [bytes(event) for event in split_events(whole.events, most)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TooManyEvents):
        return None
    settled = [replace_leap_second(event, name) for event in events]
    if not any(settled):
        return None
    batch_id = b"" if whole.batch_id is UNSET else b'"batch_id":%b,' % bytes(whole.batch_id)
    pairs = zip(settled, events, strict=True)
    return b'{%b"events":[%b]}' % (batch_id, b",".join(new or event for new, event in pairs))
