"""Rows of sign-in: passwords, sessions, one-time links, second factors, identities of OIDC providers, and limits."""

from datetime import datetime

from sqlalchemy import BigInteger, Float, ForeignKey, Index, LargeBinary, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.base import Base, UtcDateTime


class Password(Base):
    """The password of a person, as an Argon2id hash in PHC format."""

    __tablename__ = "passwords"

    person_id: Mapped[int] = mapped_column(ForeignKey("people.id"), primary_key=True, autoincrement=False)
    hash: Mapped[str] = mapped_column(String(200))
    changed_at: Mapped[datetime] = mapped_column(UtcDateTime)


class SignInSession(Base):
    """A browser in which a person is signed in. Ended sessions stay for a while, because the limits of attempts use
    their networks."""

    __tablename__ = "sign_in_sessions"
    __table_args__ = (
        Index("ix_sign_in_sessions_person_id", "person_id", "id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    person_id: Mapped[int] = mapped_column(ForeignKey("people.id"))
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"))
    """The account that the session uses; the person can switch it."""
    digest: Mapped[bytes] = mapped_column(LargeBinary(32), unique=True)
    previous_digest: Mapped[bytes | None] = mapped_column(LargeBinary(32), unique=True)
    """The digest of the secret before the last rotation; null once the browser has used the present one."""
    rotated_at: Mapped[datetime] = mapped_column(UtcDateTime)
    method: Mapped[str] = mapped_column(String(20))
    """How the person signed in."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    last_used_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    address: Mapped[str] = mapped_column(String(100))
    """The client's address at sign-in."""
    network: Mapped[str] = mapped_column(String(100))
    """The network of the address, which the limits of attempts count as one caller."""
    user_agent: Mapped[str] = mapped_column(String(300))


class SignInLink(Base):
    """A link with which a person sets a password, once."""

    __tablename__ = "sign_in_links"

    id: Mapped[int] = mapped_column(primary_key=True)
    person_id: Mapped[int] = mapped_column(ForeignKey("people.id"), index=True)
    digest: Mapped[bytes] = mapped_column(LargeBinary(32), unique=True)
    created_by_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    """Null for an operator of the machine."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime)
    used_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class SecondFactor(Base):
    """The sealed secret of a person's authenticator (TOTP, RFC 6238)."""

    __tablename__ = "second_factors"

    person_id: Mapped[int] = mapped_column(ForeignKey("people.id"), primary_key=True, autoincrement=False)
    key_id: Mapped[str] = mapped_column(String(8))
    sealed: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    confirmed_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """Null until the person has entered a code: sign-in requires codes only afterwards."""
    last_step: Mapped[int | None] = mapped_column(BigInteger)
    """The time step of the last accepted code; no code of this step or an earlier one is accepted again."""


class RecoveryCode(Base):
    """A code that replaces the authenticator, once."""

    __tablename__ = "recovery_codes"
    __table_args__ = (UniqueConstraint("person_id", "digest"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    person_id: Mapped[int] = mapped_column(ForeignKey("people.id"))
    digest: Mapped[bytes] = mapped_column(LargeBinary(32))
    used_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class OidcIdentity(Base):
    """An identity of a person at an OpenID Connect provider."""

    __tablename__ = "oidc_identities"
    __table_args__ = (UniqueConstraint("issuer", "subject"), UniqueConstraint("person_id", "issuer"))

    id: Mapped[int] = mapped_column(primary_key=True)
    person_id: Mapped[int] = mapped_column(ForeignKey("people.id"))
    issuer: Mapped[str] = mapped_column(String(300))
    subject: Mapped[str] = mapped_column(String(255))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class SignInLimit(Base):
    """The counted failed attempts to sign in, stored as the time at which none of them counts any more."""

    __tablename__ = "sign_in_limits"

    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    forgotten_at: Mapped[float] = mapped_column(Float)
    """Seconds since 1970."""
