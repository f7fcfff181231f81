"""Checks the body of `POST /v1/deployments`, and lists all that is wrong with it."""

import re
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from msgspec import Meta

from control_api.requests.json_fields import JsonFields
from control_domain.recorded_deployments.operations import DeploymentReport
from pipeline_contracts.leap_seconds import settle_member
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
    "Nothing was recorded. Mend the fields below and send it again.",
)
_SHA = re.compile(r"[0-9a-fA-F]{7,64}")


def read_report(body: bytes) -> DeploymentReport:
    """The report in the body. `null` is the same as absent, unknown members are ignored. Raises `InvalidInput` that
    lists every field at fault."""
    # A note may be a commit message that was cut in the middle of an emoji.
    body = replace_lone_surrogates(body)
    return DeploymentReport(**_fields.read(settle_member(body, "deployed_at") or body, _is_storable))


def _is_storable(name: str, value: Any) -> bool:
    if name == "commit_sha":
        return _SHA.fullmatch(value) is not None
    if isinstance(value, datetime):
        # The ends of the calendar are a few hours wide.
        return 1 < value.year < 9999
    # Postgres keeps no NUL in a text.
    return not isinstance(value, str) or "\0" not in value
