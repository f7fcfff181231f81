"""Reads the body of `POST /v1/deployments`, and lists every invalid field."""

import re
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from msgspec import Meta

from control_api.requests.json_body import JsonFields
from control_domain.recorded_deployments.operations import DeploymentReport
from pipeline_contracts.leap_seconds import replace_leap_second
from pipeline_contracts.surrogates import replace_lone_surrogates

_fields = JsonFields(
    {
        "deployment_id": (UUID, "must be a UUID", True),
        "version": (
            Annotated[str, Meta(min_length=1, max_length=128)],
            "must be a string of 1 to 128 characters",
            True,
        ),
        "service": (
            Annotated[str, Meta(max_length=100)],
            "must be a string of at most 100 characters",
            False,
        ),
        "service_namespace": (
            Annotated[str, Meta(max_length=100)],
            "must be a string of at most 100 characters",
            False,
        ),
        "commit_sha": (str, "must be 7 to 64 hexadecimal digits", False),
        "note": (Annotated[str, Meta(max_length=1000)], "must be a string of at most 1000 characters", False),
        "deployed_at": (
            Annotated[datetime, Meta(tz=True)],
            "must be an RFC 3339 date-time with a time zone, like 2026-01-31T12:00:00.000Z",
            False,
        ),
    },
    "Nothing was recorded. Fix the fields listed below and send the request again.",
)
_SHA = re.compile(r"[0-9a-fA-F]{7,64}")


def read_report(body: bytes) -> DeploymentReport:
    """Return the report in the body. Raises `InvalidInput` that lists every invalid field."""
    # A note may be a commit message that was truncated within an emoji, which leaves half a surrogate pair.
    body = replace_lone_surrogates(body)
    return DeploymentReport(**_fields.read(replace_leap_second(body, "deployed_at") or body, _is_storable))


def _is_storable(name: str, value: Any) -> bool:
    if name == "commit_sha":
        return _SHA.fullmatch(value) is not None
    if isinstance(value, datetime):
        # At the ends of the calendar a conversion to UTC may overflow.
        return 1 < value.year < 9999
    # Postgres cannot store NUL in a text.
    return not isinstance(value, str) or "\0" not in value
