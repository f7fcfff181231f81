"""Checks the body of `POST /v1/deployments`, and lists all that is wrong with it."""

import re
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from msgspec import Meta

from control_api.recorded_deployments.operations import DeploymentReport
from pipeline_contracts.errors import FieldError, InvalidInput
from pipeline_contracts.json_members import Members, NotAnObject

# What each member has to be, and how that is said.
_FIELDS: dict[str, tuple[Any, str]] = {
    "deployment_id": (UUID, "must be a UUID"),
    "version": (
        Annotated[str, Meta(min_length=1, max_length=128)],
        "must be a string of 1 to 128 characters",
    ),
    "service": (Annotated[str, Meta(max_length=100)], "must be a string of at most 100 characters"),
    "service_namespace": (Annotated[str, Meta(max_length=100)], "must be a string of at most 100 characters"),
    "commit_sha": (str, "must be 7 to 64 hexadecimal digits"),
    "note": (Annotated[str, Meta(max_length=1000)], "must be a string of at most 1000 characters"),
    "deployed_at": (
        Annotated[datetime, Meta(tz=True)],
        "must be an RFC 3339 date-time with a time zone, like 2026-01-31T12:00:00.000Z",
    ),
}
_REQUIRED = ("deployment_id", "version")
_SHA = re.compile(r"[0-9a-fA-F]{7,64}")
_members = Members({name: type_ for name, (type_, _) in _FIELDS.items()})


def read_report(body: bytes) -> DeploymentReport:
    """The report in the body. `null` is the same as absent, unknown members are ignored. Raises `InvalidInput` that
    lists every field at fault."""
    try:
        values, bad = _members.read(body)
    except NotAnObject as error:
        raise _refused([FieldError("", str(error))]) from error
    faults = []
    for name, (_, expected) in _FIELDS.items():
        if name in bad or (name in values and not _is_storable(name, values[name])):
            faults.append(FieldError(name, expected))
        elif name in _REQUIRED and name not in values:
            faults.append(FieldError(name, f"is required; {expected}"))
    if faults:
        raise _refused(faults)
    return DeploymentReport(**values)


def _is_storable(name: str, value: Any) -> bool:
    if name == "commit_sha":
        return _SHA.fullmatch(value) is not None
    if isinstance(value, datetime):
        # The ends of the calendar are a few hours wide.
        return 1 < value.year < 9999
    # Postgres keeps no NUL in a text.
    return not isinstance(value, str) or "\0" not in value


def _refused(errors: list[FieldError]) -> InvalidInput:
    return InvalidInput("Nothing was recorded. Mend the fields below and send it again.", errors=errors)
