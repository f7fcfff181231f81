"""Rows of the audit log."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.base import Base, UtcDateTime


class AuditEntry(Base):
    """One committed change, written in the transaction of the change."""

    __tablename__ = "audit_entries"
    __table_args__ = (
        Index("ix_audit_entries_account_id", "account_id", "id"),
        # For the history of one subject.
        Index("ix_audit_entries_subject", "account_id", "subject", "id"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    account_id: Mapped[int | None] = mapped_column(ForeignKey("accounts.id"))
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    person_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    """Null for an unnamed operator."""
    token_id: Mapped[int | None] = mapped_column(ForeignKey("api_tokens.id"))
    action: Mapped[str] = mapped_column(String(60))
    """`deployment.queue`, `variables.replace`, …"""
    subject: Mapped[str] = mapped_column(String(100))
    """What was changed, as a kind and an ID: `environment env_01jz…`."""
    details: Mapped[str] = mapped_column(Text)
    """A JSON object. It never contains a secret or the value of a variable."""
    source: Mapped[str] = mapped_column(String(100))
    """The caller's address, or `operator` and the name of the user on the machine."""
    request_id: Mapped[str | None] = mapped_column(String(128))
