"""Ingest keys of environments, as people see them."""

from datetime import datetime
from typing import Annotated, TypedDict

from msgspec import Meta

from control_domain.keys import KeyState, get_key_state
from control_domain.projects.environment_keys import EnvironmentKeys
from control_domain.tables.projects import IngestKey
from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.times import format_optional_time, format_time

INGEST_KEYS = EnvironmentKeys(
    table=IngestKey,
    kind=CredentialKind.INGEST_KEY,
    name="ingest key",
    subject="ingest-key",
    max_live=1000,
    # The key of a deployed application is stored sealed.
    cleared={"sealed": None, "sealing_key_id": None},
)


class IngestKeyDocument(TypedDict):
    """An ingest key of one environment, without its secret."""

    id: int
    environment_id: str
    name: Annotated[
        str | None,
        Meta(
            description="What the key is for, for a key that Pharos made; null for a key that a person created."
        ),
    ]
    state: KeyState
    created_at: str
    expires_at: str | None
    revoked_at: str | None


class CreatedIngestKey(IngestKeyDocument):
    """A new ingest key."""

    key: Annotated[str, Meta(description="The secret, which is not shown again.")]


def describe_ingest_key(key: IngestKey, environment_id: str, now: datetime) -> IngestKeyDocument:
    return {
        "id": key.id,
        "environment_id": environment_id,
        "name": key.name,
        "state": get_key_state(key, now),
        "created_at": format_time(key.created_at),
        "expires_at": format_optional_time(key.expires_at),
        "revoked_at": format_optional_time(key.revoked_at),
    }
