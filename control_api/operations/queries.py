"""Query parameters as structs; unknown and repeated ones are refused."""

from typing import Any, TypeVar

import msgspec
from fastapi import Depends, Request

from control_api.operations.field_rules import describe_rule, is_time
from pipeline_contracts.errors import FieldError, InvalidInput

S = TypeVar("S", bound=msgspec.Struct)

QUERY_ATTRIBUTE = "pharos_query"
"""The attribute of a dependency that holds the struct of the query."""
_DETAIL = "Fix the query parameters listed below and send the request again."


class NoQuery(msgspec.Struct):
    """No parameters."""


def query(model: type[S]) -> Any:
    """Return the dependency that yields the query parameters as `model`: 422 lists every invalid one.

    A parameter is text that is converted to the field's type: numbers, booleans (`true`, `false`), times, enums.
    """

    async def read(request: Request) -> S:
        return read_query(model, request)

    setattr(read, QUERY_ATTRIBUTE, model)
    return Depends(read)


def read_query(model: type[S], request: Request) -> S:
    """Return the query parameters as `model`. Raises `InvalidInput`."""
    given: dict[str, list[str]] = {}
    for name, text in request.query_params.multi_items():
        given.setdefault(name, []).append(text)
    values: dict[str, Any] = {}
    errors: list[FieldError] = []
    for field in msgspec.structs.fields(model):
        texts = given.pop(field.encode_name, [])
        if len(texts) > 1:
            errors.append(FieldError(field.encode_name, "must be given once"))
        elif not texts:
            if field.required:
                errors.append(FieldError(field.encode_name, f"is required; {describe_rule(field.type)}"))
        elif "\0" in texts[0]:
            errors.append(FieldError(field.encode_name, "must not contain the character NUL"))
        else:
            try:
                # Otherwise msgspec would read a number as a time, in seconds since 1970.
                value = msgspec.convert(texts[0], field.type, strict=is_time(field.type))
            except msgspec.ValidationError:
                value = None
            # The text `null` is not a value either, unless the parameter is a string.
            if value is None:
                rule = describe_rule(field.type).removesuffix(" or null")
                errors.append(FieldError(field.encode_name, rule))
            else:
                values[field.name] = value
    errors += [FieldError(name, "is not a parameter of this operation") for name in given]
    if errors:
        raise InvalidInput(_DETAIL, errors=errors)
    return model(**values)
