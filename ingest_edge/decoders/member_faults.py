"""List all invalid members of an object that the fast decoder has refused."""

from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from pipeline_contracts.errors import FieldError
from pipeline_contracts.json_members import Members


def make_fault_lister(
    type_: type[Struct], expected: Mapping[str, str], otherwise: str = ""
) -> Callable[[bytes, str], list[FieldError]]:
    """Return a function of (body, prefix of field names) that lists the faults of an object of this type.

    `expected` has the message for each member, `otherwise` the message for all others. The function raises
    `pipeline_contracts.json_members.NotAnObject`.
    """
    fields = msgspec.structs.fields(type_)
    # The same types as in the fast decoder, so that the two cannot disagree.
    members = Members({field.encode_name: field.type for field in fields})

    def list_faults(body: bytes, prefix: str) -> list[FieldError]:
        values, invalid = members.read(body)
        faults = []
        for field in fields:
            name = field.encode_name
            if name in invalid:
                faults.append(FieldError(prefix + name, expected.get(name, otherwise)))
            elif field.required and name not in values:
                faults.append(FieldError(prefix + name, "is required"))
        return faults

    return list_faults
