"""Split a batch into its events as raw JSON, in memory bounded by the maximum number of events.

A body of twenty megabytes may contain seven million `{}`, which would take half a gigabyte as objects before they can
be counted. Here only as many events as a batch may have, and one more, are kept.
"""

from functools import lru_cache
from typing import Protocol, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType


class TooManyEvents(Exception):
    """The batch has more events than allowed."""


class _Decoder(Protocol):
    def decode(self, body: bytes | Raw, /) -> msgspec.Struct: ...


@lru_cache(16)
def _decoders(max_events: int) -> tuple[_Decoder, _Decoder]:
    # Decode the array into a struct with a field for each event and one more: the decoder skips the rest.
    last = f"event{max_events}"

    def refuse_more(self: msgspec.Struct) -> None:
        if getattr(self, last) is not UNSET:
            raise TooManyEvents

    fields = [(f"event{index}", Raw | UnsetType, UNSET) for index in range(max_events + 1)]
    events = msgspec.defstruct(
        "Events", fields, array_like=True, gc=False, namespace={"__post_init__": refuse_more}
    )
    batch = msgspec.defstruct("Batch", [("events", events | UnsetType, UNSET)], gc=False)
    return cast(_Decoder, msgspec.json.Decoder(events)), cast(_Decoder, msgspec.json.Decoder(batch))


def split_batch(body: bytes, max_events: int) -> list[Raw]:
    """Return the events of a body. Raises `TooManyEvents`, and `msgspec.DecodeError` if they are no array."""
    batch = _decoders(max_events)[1].decode(body)
    events = getattr(batch, "events")  # noqa: B009
    return [] if events is UNSET else _to_list(events)


def split_events(events: Raw, max_events: int) -> list[Raw]:
    """Return the events of a raw array. Raises as `split_batch` does."""
    return _to_list(_decoders(max_events)[0].decode(events))


def _to_list(events: msgspec.Struct) -> list[Raw]:
    return [event for event in msgspec.structs.astuple(events) if event is not UNSET]
