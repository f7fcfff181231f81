"""Rows of invitations to accounts."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, LargeBinary, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.base import Base, UtcDateTime


class Invitation(Base):
    """An invitation of a person to an account: the digest of its secret, and the access that the person gets."""

    __tablename__ = "invitations"
    __table_args__ = (
        Index("ix_invitations_account_id", "account_id", "id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"))
    email: Mapped[str] = mapped_column(String(254))
    """In lower case."""
    role: Mapped[str] = mapped_column(String(20))
    """The role in the account."""
    project_roles: Mapped[str] = mapped_column(Text)
    """A JSON object: the role in each project, by the project's number. Numbers of removed projects stay."""
    scopes: Mapped[str] = mapped_column(String(200))
    """The scopes of the first token, space-separated: those of the token that created the invitation."""
    digest: Mapped[bytes] = mapped_column(LargeBinary(32), unique=True)
    invited_by_id: Mapped[int] = mapped_column(ForeignKey("people.id"))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime)
    accepted_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    accepted_by_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    revoked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
