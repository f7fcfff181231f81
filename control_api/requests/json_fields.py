"""Reads the members of a JSON body one by one, and tells all that is wrong with them."""

from collections.abc import Callable, Mapping
from typing import Any

from pipeline_contracts.errors import FieldError, InvalidInput
from pipeline_contracts.json_members import Members, NotAnObject


class JsonFields:
    """The members of one operation's body: each with its type, what it has to be in words, and whether it has to be
    there. `null` is the same as absent, others are passed over."""

    def __init__(self, fields: Mapping[str, tuple[Any, str, bool]], refusal: str) -> None:
        """`refusal` is what a caller is told above the fields at fault."""
        self._fields = fields
        self._refusal = refusal
        self._members = Members({name: type_ for name, (type_, _, _) in fields.items()})

    def read(self, body: bytes, is_storable: Callable[[str, Any], bool]) -> dict[str, Any]:
        """The members that were given; `is_storable` has the last word on those that fit their types. Raises
        `InvalidInput` that lists every field at fault."""
        try:
            values, bad = self._members.read(body)
        except NotAnObject as error:
            raise InvalidInput(self._refusal, errors=[FieldError("", str(error))]) from error
        faults = []
        for name, (_, expected, is_required) in self._fields.items():
            if name in bad or (name in values and not is_storable(name, values[name])):
                faults.append(FieldError(name, expected))
            elif is_required and name not in values:
                faults.append(FieldError(name, f"is required; {expected}"))
        if faults:
            raise InvalidInput(self._refusal, errors=faults)
        return values
