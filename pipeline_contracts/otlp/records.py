"""The header of an OTLP record in the event log."""

from typing import Literal

import msgspec

Coding = Literal["json", "protobuf"]


class OtlpMeta(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Sender and time of a request, as a MessagePack array in the record's header. The value is the request's body.

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
    """Indexes of the rejected records in the body, ascending from 0. The body still contains them."""
    batch_id: str = ""
    """Names the request within its environment: the consumers store the first one with this name, and the record's key
    is the name of its receipt. Empty: each request is stored."""


encode_otlp_meta = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(OtlpMeta)


def decode_otlp_meta(data: bytes) -> OtlpMeta:
    """Decode the header of a record. Raises `msgspec.DecodeError`, also as its subclass `ValidationError`."""
    return _decoder.decode(data)
