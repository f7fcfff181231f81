"""Takes a batch apart into its events as raw JSON, in memory bounded by the number of events that are allowed.

A body of twenty megabytes may hold seven million `{}`. As objects they would take half a gigabyte before anybody
could count them; here the reading stops to keep them at the first one too many.
"""

from functools import lru_cache
from typing import Protocol, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType


class TooManyEvents(Exception):
    """More than are allowed in a batch."""


class _Decoder(Protocol):
    def decode(self, body: bytes | Raw, /) -> msgspec.Struct: ...


@lru_cache(16)
def _decoders(most: int) -> tuple[_Decoder, _Decoder]:
    # An array read into a struct with a place for each event and one more: what follows is skipped, not kept.
    last = f"event{most}"

    def refuse_more(self: msgspec.Struct) -> None:
        if getattr(self, last) is not UNSET:
            raise TooManyEvents

    places = [(f"event{index}", Raw | UnsetType, UNSET) for index in range(most + 1)]
    events = msgspec.defstruct(
        "Events", places, array_like=True, gc=False, namespace={"__post_init__": refuse_more}
    )
    batch = msgspec.defstruct("Batch", [("events", events | UnsetType, UNSET)], gc=False)
    return cast(_Decoder, msgspec.json.Decoder(events)), cast(_Decoder, msgspec.json.Decoder(batch))


def split_batch(body: bytes, most: int) -> list[Raw]:
    """The events of a whole body. Raises `TooManyEvents`, and `msgspec.DecodeError` if there is no array of them."""
    batch = _decoders(most)[1].decode(body)
    events = getattr(batch, "events")  # noqa: B009
    return [] if events is UNSET else _listed(events)


def split_events(events: Raw, most: int) -> list[Raw]:
    """The events of a raw array. Raises as `split_batch` does."""
    return _listed(_decoders(most)[0].decode(events))


def _listed(events: msgspec.Struct) -> list[Raw]:
    return [event for event in msgspec.structs.astuple(events) if event is not UNSET]
