"""From the JSON of an OTLP body to typed structs."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from ingest_edge.decoders.utf8 import first_bad_byte
from ingest_edge.limits import Limits
from ingest_edge.otlp.leave_out import leave_out_unreadable
from ingest_edge.otlp.repair import read_document, repair
from pipeline_contracts.errors import InvalidInput, PayloadTooLarge
from pipeline_contracts.surrogates import replace_lone_surrogates

# Each object costs a hundred bytes while it is decoded, and takes three to write.
_COUNTED_FROM = 2 * 2**20
_MOST_OBJECTS = 1_000_000
# Of a body that is repaired: it is decoded as a whole, with the members that nobody reads. A body of 20 MiB could hold
# seven million lists, which take half a gigabyte and three seconds.
_MOST_VALUES = 2_000_000


class Decoded(NamedTuple):
    """A request, with the body that says the same."""

    request: Any
    body: bytes
    """As it came, as a rule; otherwise repaired."""
    left_out: list[str]
    """Why records are in neither of them: a reason for each."""


class Decoder:
    """Decodes requests of one type; a body that is refused is repaired and decoded again."""

    def __init__(self, type_: type[msgspec.Struct]) -> None:
        # Integers may be strings.
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(type_, strict=False).decode
        self._type = type_

    def decode_sent(self, body: bytes) -> Decoded | msgspec.DecodeError:
        """Return the request in a body as it was sent, or why the body has to be repaired.

        Raises `InvalidInput` for what cannot be repaired, `PayloadTooLarge` for too many objects.
        """
        if not body.isascii() and (bad := first_bad_byte(body)) is not None:
            raise InvalidInput(f"The body is not valid UTF-8 (byte {bad}).")
        if len(body) > _COUNTED_FROM and body.count(b"{") > _MOST_OBJECTS:
            raise PayloadTooLarge(f"The body has more than {_MOST_OBJECTS} objects. Send smaller batches.")
        try:
            return Decoded(self._decode(body), body, [])
        except RecursionError:
            raise nested_too_deeply() from None
        except msgspec.DecodeError as error:
            return error

    def decode_repaired(self, body: bytes, refused: msgspec.DecodeError, limits: Limits) -> Decoded:
        """Return what can be read of a body that `decode_sent` has refused. Takes 0.15 s per MiB.

        Raises `InvalidInput` for what is not JSON or whose envelope is not of this shape, `PayloadTooLarge` for too
        many values, and for a repaired body that is over the limit of bodies.
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
            # Numbers are written anew, up to five times as long: `1e15`. The log takes no larger records.
            raise PayloadTooLarge(
                f"The repaired body is over {limits.decompressed_bytes} bytes. Send smaller batches."
            )
        return decoded

    def _repair(self, sent: bytes, refused: msgspec.DecodeError) -> Decoded:
        """What is left of a body that was `refused`. Raises as the decoder does, and `PayloadTooLarge`."""
        body = replace_lone_surrogates(sent)
        if body is not sent:
            # The most frequent case: one emoji that was cut.
            try:
                return Decoded(self._decode(body), body, [])
            except msgspec.DecodeError as error:
                refused = error
        if not isinstance(refused, msgspec.ValidationError):
            raise refused
        if body.count(b",") > _MOST_VALUES:
            raise PayloadTooLarge(f"The body has more than {_MOST_VALUES} values. Send smaller batches.")
        document = read_document(body)
        repair(document, self._type)
        body = msgspec.json.encode(document)
        try:
            return Decoded(self._decode(body), body, [])
        except msgspec.ValidationError:
            reasons = leave_out_unreadable(document, self._type)
            body = msgspec.json.encode(document)
            return Decoded(self._decode(body), body, reasons)


def nested_too_deeply() -> InvalidInput:
    """For a body whose nesting the decoder does not support."""
    return InvalidInput("The body is nested too deeply.")
