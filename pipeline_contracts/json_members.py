"""Reads a JSON object member by member, so that all that is wrong with it can be told, not only the first fault."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType


class NotAnObject(ValueError):
    """A body that is no JSON object."""


class Members:
    """The members that an object may have, with their types; others are passed over."""

    def __init__(self, types: Mapping[str, Any]) -> None:
        # Each stays raw JSON until its own turn: one that is wrong does not hide the others.
        raw = msgspec.defstruct("Members", [(name, Raw | UnsetType, UNSET) for name in types], gc=False)
        self._split = msgspec.json.Decoder(raw).decode
        self._decoders = {name: msgspec.json.Decoder(type_).decode for name, type_ in types.items()}

    def read(self, body: bytes) -> tuple[dict[str, Any], set[str]]:
        """(the values of those that fit their types, the names of those that do not). `null` is the same as absent.
        Raises `NotAnObject`."""
        try:
            given = msgspec.structs.asdict(self._split(body))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise NotAnObject(f"must be a JSON object: {error}") from error
        values, bad = {}, set()
        for name, raw in given.items():
            if raw is UNSET or bytes(raw) == b"null":
                continue
            try:
                values[name] = self._decoders[name](raw)
            except (msgspec.ValidationError, UnicodeDecodeError):
                bad.add(name)
        return values, bad
