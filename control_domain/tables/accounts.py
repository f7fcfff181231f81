"""Rows of accounts, people, memberships and API tokens."""

from datetime import datetime

from sqlalchemy import Float, ForeignKey, LargeBinary, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.base import Base, UtcDateTime


class Account(Base):
    """The owner of projects, limits and API tokens."""

    __tablename__ = "accounts"

    id: Mapped[int] = mapped_column(primary_key=True)
    public_id: Mapped[str] = mapped_column(String(40), unique=True)
    name: Mapped[str] = mapped_column(String(100))
    slug: Mapped[str] = mapped_column(String(100), unique=True)
    plan: Mapped[str] = mapped_column(String(40))
    ingest_rate: Mapped[float] = mapped_column(Float)
    ingest_burst: Mapped[int]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Person(Base):
    """A person, who may be a member of several accounts."""

    __tablename__ = "people"

    id: Mapped[int] = mapped_column(primary_key=True)
    public_id: Mapped[str] = mapped_column(String(40), unique=True)
    name: Mapped[str] = mapped_column(String(100))
    email: Mapped[str] = mapped_column(String(254), unique=True)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Membership(Base):
    """A person's membership and role in an account."""

    __tablename__ = "memberships"
    __table_args__ = (UniqueConstraint("account_id", "person_id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"))
    person_id: Mapped[int] = mapped_column(ForeignKey("people.id"), index=True)
    role: Mapped[str] = mapped_column(String(20))


class ApiToken(Base):
    """An API token: the digest of its secret, its scopes and its lifetime."""

    __tablename__ = "api_tokens"

    id: Mapped[int] = mapped_column(primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"), index=True)
    person_id: Mapped[int] = mapped_column(ForeignKey("people.id"))
    name: Mapped[str] = mapped_column(String(100))
    digest: Mapped[bytes] = mapped_column(LargeBinary(32), unique=True)
    scopes: Mapped[str] = mapped_column(String(200))
    """Space-separated, as OAuth writes them."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_used_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
