"""Tells all that is wrong with the members of an object, where the fast decoder has only said no."""

from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from pipeline_contracts.errors import FieldError
from pipeline_contracts.json_members import Members


def faults_of_members(
    type_: type[Struct], expected: Mapping[str, str], otherwise: str = ""
) -> Callable[[bytes, str], list[FieldError]]:
    """What lists the faults of an object that should be of this type, each field's name behind a prefix.

    `expected` says what each member must be, `otherwise` what those must be that it does not name. Raises
    `pipeline_contracts.json_members.NotAnObject` when called.
    """
    fields = msgspec.structs.fields(type_)
    # What the fast decoder refuses is held against the same types again.
    members = Members({field.encode_name: field.type for field in fields})

    def list_faults(body: bytes, prefix: str) -> list[FieldError]:
        values, bad = members.read(body)
        found = []
        for field in fields:
            name = field.encode_name
            if name in bad:
                found.append(FieldError(prefix + name, expected.get(name, otherwise)))
            elif field.required and name not in values:
                found.append(FieldError(prefix + name, "is required"))
        return found

    return list_faults
