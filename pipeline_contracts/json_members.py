"""Read a JSON object member by member, to report every invalid member and not only the first."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType


class NotAnObject(ValueError):
    """The body is not a JSON object."""


class Members:
    """Decoders of an object's members by name. Members of other names are ignored."""

    def __init__(self, types: Mapping[str, Any]) -> None:
        # Split the object into raw members first, because a decoder stops at the first invalid one.
        raw = msgspec.defstruct("Members", [(name, Raw | UnsetType, UNSET) for name in types], gc=False)
        self._split = msgspec.json.Decoder(raw).decode
        self._decoders = {name: msgspec.json.Decoder(type_).decode for name, type_ in types.items()}

    def read(self, body: bytes) -> tuple[dict[str, Any], set[str]]:
        """Return the values of the valid members, and the names of the invalid ones. `null` counts as absent.

        Raises `NotAnObject`.
        """
        try:
            members = msgspec.structs.asdict(self._split(body))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise NotAnObject(f"must be a JSON object: {error}") from error
        values, invalid = {}, set()
        for name, raw in members.items():
            if raw is UNSET or bytes(raw) == b"null":
                continue
            try:
                values[name] = self._decoders[name](raw)
            except (msgspec.ValidationError, UnicodeDecodeError):
                invalid.add(name)
        return values, invalid
