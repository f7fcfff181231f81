"""Rows of stored responses, for requests with an Idempotency-Key."""

from datetime import datetime, timedelta

from sqlalchemy import Index, LargeBinary, String
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.base import Base, UtcDateTime

RETENTION = timedelta(hours=24)
"""How long the first response to a key is repeated."""


class IdempotentResponse(Base):
    """The digest of the first request with a key, and the response to it."""

    __tablename__ = "idempotent_answers"
    __table_args__ = (Index("ix_idempotent_answers_created_at", "created_at"),)

    caller: Mapped[str] = mapped_column(String(100), primary_key=True)
    """The caller who sent the key; two callers may choose the same key."""
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    request_digest: Mapped[bytes] = mapped_column(LargeBinary(32))
    status: Mapped[int | None]
    """Null only within the transaction of the first request."""
    body: Mapped[bytes | None] = mapped_column(LargeBinary)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    changed_keys: Mapped[bytes | None] = mapped_column(LargeBinary)
    """The `ChangedKeys` that each repeated response publishes to the edges again; null if the request changed no
    key."""
