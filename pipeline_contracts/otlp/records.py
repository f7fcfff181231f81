"""What travels beside an OTLP body through the event log."""

from typing import Literal

import msgspec

Coding = Literal["json", "protobuf"]


class OtlpMeta(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Who sent a request and when: travels in the record's header, as a MessagePack array.

    Fields are only ever added at the end, with a default, so that old records stay readable.
    """

    account_id: str
    project_id: str
    environment_id: str
    received_ms: int
    """Time of receipt at the edge, milliseconds since 1970, UTC."""
    records: int
    """Spans, log records or data points that were accepted."""
    coding: Coding = "json"
    rejected: tuple[int, ...] = ()
    """Those that were not, by their place in the body from 0 on, ascending. The body travels as it came."""


encode_otlp_meta = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(OtlpMeta)


def decode_otlp_meta(data: bytes) -> OtlpMeta:
    """The header's content. Raises `msgspec.DecodeError` (a `ValidationError` among it) for foreign bytes."""
    return _decoder.decode(data)
