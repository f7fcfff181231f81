"""Decode the JSON of an OTLP body into typed structs."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from ingest_edge.decoders.utf8 import find_invalid_byte
from ingest_edge.limits import Limits
from ingest_edge.otlp.drop_unreadable import drop_unreadable
from ingest_edge.otlp.repair import read_document, repair
from pipeline_contracts.errors import InvalidInput, PayloadTooLarge
from pipeline_contracts.surrogates import replace_lone_surrogates

# An object of three bytes takes a hundred bytes in memory. Small bodies are not counted.
_COUNTED_FROM = 2 * 2**20
_MAX_OBJECTS = 1_000_000
# A repair decodes the whole body, including the ignored members: the seven million lists that 20 MiB may contain would
# take half a gigabyte and three seconds.
_MAX_VALUES = 2_000_000


def has_too_many_objects(body: bytes) -> bool:
    """Return True if objects of the body would take too much memory."""
    return len(body) > _COUNTED_FROM and body.count(b"{") > _MAX_OBJECTS


class Decoded(NamedTuple):
    """A request, with the body that it was decoded from."""

    request: Any
    body: bytes
    """The body as it was sent, or repaired."""
    drop_reasons: list[str]
    """The reason for each record that was dropped from both."""


class Decoder:
    """Decodes requests of one type; a body that is refused is repaired and decoded again."""

    def __init__(self, type_: type[msgspec.Struct]) -> None:
        # Integers may be strings.
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(type_, strict=False).decode
        self._type = type_

    def decode_sent(self, body: bytes) -> Decoded | msgspec.DecodeError:
        """Return the request in a body as it was sent, or the error that makes a repair necessary.

        Raises `InvalidInput` for a body that cannot be repaired, `PayloadTooLarge` for too many objects.
        """
        if not body.isascii() and (invalid := find_invalid_byte(body)) is not None:
            raise InvalidInput(f"The body is not valid UTF-8 (byte {invalid}).")
        if has_too_many_objects(body):
            raise PayloadTooLarge(f"The body has more than {_MAX_OBJECTS} objects. Send smaller batches.")
        try:
            return Decoded(self._decode(body), body, [])
        except RecursionError:
            raise nested_too_deeply() from None
        except msgspec.DecodeError as error:
            return error

    def decode_repaired(self, body: bytes, refused: msgspec.DecodeError, limits: Limits) -> Decoded:
        """Repair and decode a body that `decode_sent` has refused with the error `refused`. Takes 0.15 s per MiB.

        Raises `InvalidInput` for a body that is not JSON or has the wrong shape outside of its records,
        `PayloadTooLarge` for too many values, and for a repaired body over the limit.
        """
        try:
            decoded = self._repair(body, refused)
        except RecursionError:
            raise nested_too_deeply() from None
        except msgspec.ValidationError as error:
            raise InvalidInput(f"The body has the wrong shape: {error}.") from error
        except msgspec.DecodeError as error:
            raise InvalidInput(f"The body is not valid JSON: {error}.") from error
        if len(decoded.body) > limits.decompressed_bytes:
            # Numbers are encoded again, up to five times as long (`1e15`), and the log limits the size of records.
            raise PayloadTooLarge(
                f"The repaired body is over {limits.decompressed_bytes} bytes. Send smaller batches."
            )
        return decoded

    def _repair(self, sent: bytes, refused: msgspec.DecodeError) -> Decoded:
        """Repair and decode a body. Raises as the decoder does, and `PayloadTooLarge`."""
        body = replace_lone_surrogates(sent)
        if body is not sent:
            # The most frequent case: a truncated emoji.
            try:
                return Decoded(self._decode(body), body, [])
            except msgspec.DecodeError as error:
                refused = error
        if not isinstance(refused, msgspec.ValidationError):
            raise refused
        if body.count(b",") > _MAX_VALUES:
            raise PayloadTooLarge(f"The body has more than {_MAX_VALUES} values. Send smaller batches.")
        document = read_document(body)
        repair(document, self._type)
        body = msgspec.json.encode(document)
        try:
            return Decoded(self._decode(body), body, [])
        except msgspec.ValidationError:
            reasons = drop_unreadable(document, self._type)
            body = msgspec.json.encode(document)
            return Decoded(self._decode(body), body, reasons)


def nested_too_deeply() -> InvalidInput:
    """Return the problem for a body that is nested too deeply for the decoder."""
    return InvalidInput("The body is nested too deeply.")
