"""Request bodies as structs: read within limits, with every invalid field in one response."""

import re
from functools import cache
from typing import Any, TypeVar

import msgspec
from fastapi import Depends, Request
from msgspec import Raw, UnsetType

from control_api.operations.field_rules import allows_null, describe_item_rule, describe_rule
from control_api.request_session import Session, end_transaction
from control_api.requests.json_body import read_json_body
from pipeline_contracts.errors import FieldError, InvalidInput

S = TypeVar("S", bound=msgspec.Struct)

BODY_ATTRIBUTE = "pharos_body"
"""The attribute of a dependency that holds the struct of the body."""
_DETAIL = "Nothing was changed. Fix the fields listed below and send the request again."
_MAX_BYTES = 64 * 1024
_MISSING = re.compile("missing required field `([^`]+)`")
_IS_ITEM = re.compile(r"\[\d+\]").fullmatch


def json_body(model: type[S], *, max_bytes: int = _MAX_BYTES, is_optional: bool = False) -> Any:
    """Return the dependency that yields the body as `model`. Declare it after the access, which must be checked first.

    Unknown members are ignored. `null` is the same as absent, except for a field whose type includes None. 422 lists
    every invalid field; 413 and 408 limit the size and the time. Without a body, an optional body is `model()`.
    """

    async def read(request: Request, session: Session) -> S:
        # A body may take seconds: no transaction may be open meanwhile.
        await end_transaction(session)
        if is_optional and not _has_body(request):
            return model()
        raw = await read_json_body(request, max_bytes)
        request.state.raw_body = raw
        return decode_body(model, raw)

    setattr(read, BODY_ATTRIBUTE, (model, is_optional))
    return Depends(read)


def _has_body(request: Request) -> bool:
    headers = request.headers
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


class _Reader:
    """The decoders of a struct's fields. Each field is decoded alone, because a decoder stops at the first fault."""

    def __init__(self, model: type[msgspec.Struct]) -> None:
        self._model = model
        self._fields = msgspec.structs.fields(model)
        names = [(field.encode_name, Raw | UnsetType, msgspec.UNSET) for field in self._fields]
        self._split = msgspec.json.Decoder(msgspec.defstruct("Members", names, gc=False)).decode
        self._decoders = {f.name: msgspec.json.Decoder(f.type) for f in self._fields}
        self._nullable = {field.name for field in self._fields if allows_null(field.type)}

    def read(self, body: bytes) -> Any:
        try:
            members = self._split(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInput(_DETAIL, errors=[FieldError("", f"must be a JSON object: {error}")]) from error
        values: dict[str, Any] = {}
        errors: list[FieldError] = []
        for field in self._fields:
            raw = getattr(members, field.encode_name)
            if raw is msgspec.UNSET or (bytes(raw) == b"null" and field.name not in self._nullable):
                if field.required:
                    errors.append(FieldError(field.encode_name, f"is required; {describe_rule(field.type)}"))
                continue
            try:
                values[field.name] = self._decoders[field.name].decode(raw)
            except (msgspec.ValidationError, UnicodeDecodeError) as error:
                errors.append(_field_error(field, error))
            except (msgspec.DecodeError, RecursionError):
                errors.append(FieldError(field.encode_name, describe_rule(field.type)))
            else:
                if _contains_nul(values[field.name]):
                    errors.append(FieldError(field.encode_name, "must not contain the character NUL"))
        if errors:
            raise InvalidInput(_DETAIL, errors=errors)
        return self._model(**values)


def decode_body(model: type[S], raw: bytes) -> S:
    """Return the JSON object as `model`. Raises `InvalidInput` that lists every invalid field."""
    value: S = _reader(model).read(raw)
    return value


@cache
def _reader(model: type[msgspec.Struct]) -> _Reader:
    return _Reader(model)


def _field_error(field: msgspec.structs.FieldInfo, error: Exception) -> FieldError:
    message, _, path = str(error).partition(" - at `$")
    name = f"{field.encode_name}{path.rstrip('`')}"
    if missing := _MISSING.search(message):
        return FieldError(f"{name}.{missing[1]}", "is required")
    if _IS_ITEM(path.rstrip("`")) and (rule := describe_item_rule(field.type)):
        return FieldError(name, rule)
    if name != field.encode_name:
        # The fault is within the field: add the decoder's message.
        return FieldError(name, message[:1].lower() + message[1:])
    return FieldError(name, describe_rule(field.type))


def _contains_nul(value: Any) -> bool:
    """Return True if a text in the value contains NUL, which Postgres cannot store."""
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any(_contains_nul(name) or _contains_nul(each) for name, each in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(_contains_nul(each) for each in value)
    if isinstance(value, msgspec.Struct):
        return any(_contains_nul(getattr(value, name)) for name in value.__struct_fields__)
    return False
