"""Rows of webhooks: secrets, recent deliveries, waiting pushes, and installations of the Git host's application."""

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, LargeBinary, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.base import Base, UtcDateTime, partial_index


class SealedWebhookSecret(Base):
    """The secret that verifies the webhooks of a repository. A repository without one has no webhook."""

    __tablename__ = "webhook_secrets"

    repository_id: Mapped[int] = mapped_column(
        ForeignKey("repositories.id"), primary_key=True, autoincrement=False
    )
    kind: Mapped[str] = mapped_column(String(8))
    """`hmac`, `signing` or `plain`: see `WebhookSecret`."""
    key_id: Mapped[str] = mapped_column(String(8))
    sealed: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class WebhookDelivery(Base):
    """One delivery with a valid signature and the response to it, kept for 7 days."""

    __tablename__ = "webhook_deliveries"
    __table_args__ = (
        # The database enforces "once": of several equal deliveries at the same time, one is inserted.
        partial_index(
            "uq_webhook_deliveries_seen",
            "scope",
            "delivery",
            condition="is_first",
            unique=True,
        ),
        Index("ix_webhook_deliveries_received_at", "received_at"),
        Index("ix_webhook_deliveries_repository_id", "repository_id", "id"),
        # IDs are not reused: a person who noted the ID of a deleted delivery would replay another one.
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    repository_id: Mapped[int | None] = mapped_column(ForeignKey("repositories.id"))
    """Null for a delivery to the webhook of the Git host's application."""
    scope: Mapped[str] = mapped_column(String(20))
    """The scope in which `delivery` is unique: the number of the repository, or `app`."""
    delivery: Mapped[str] = mapped_column(String(255))
    """The host's ID of the delivery, or the digest of the body if the host sends no ID."""
    is_first: Mapped[bool]
    """True if later deliveries with the same ID are duplicates; False for refused and replayed ones."""
    kind: Mapped[str] = mapped_column(String(12))
    """The provider."""
    event: Mapped[str] = mapped_column(String(100))
    headers: Mapped[str] = mapped_column(Text)
    """JSON; signatures and tokens are left out."""
    body: Mapped[bytes] = mapped_column(LargeBinary)
    """The received body, compressed with zlib. Empty, with `headers` `{}`, after it was evicted for newer ones."""
    http_status: Mapped[int]
    answer: Mapped[str] = mapped_column(String(30))
    """The `status` in the response, or the slug of the problem."""
    deployment_id: Mapped[int | None]
    """Not a foreign key: the response stays after the deployment was deleted with its project."""
    reason: Mapped[str | None] = mapped_column(Text)
    """Why nothing was done, for people."""
    replay_of: Mapped[int | None]
    """The ID of the replayed delivery."""
    received_at: Mapped[datetime] = mapped_column(UtcDateTime)


class WaitingPush(Base):
    """The newest push of a branch that came while a deployment of its environment was active."""

    __tablename__ = "waiting_pushes"
    __table_args__ = (UniqueConstraint("environment_id", "branch"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"))
    repository_id: Mapped[int] = mapped_column(ForeignKey("repositories.id"), index=True)
    branch: Mapped[str] = mapped_column(String(200))
    """The branch to deploy, or the ref of a fork's pull request."""
    trigger: Mapped[str] = mapped_column(String(20))
    """`push` or `pull_request`."""
    pushed_revision: Mapped[str | None] = mapped_column(String(64))
    pushed_from: Mapped[str | None] = mapped_column(String(64))
    note: Mapped[str | None] = mapped_column(String(500))
    source: Mapped[str] = mapped_column(String(100))
    """The source for the audit log."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    # Without foreign keys: SQLite would copy the table to add one.
    person_id: Mapped[int | None]
    """The person who replayed the delivery; null if the Git host sent it."""
    token_id: Mapped[int | None]
    request_id: Mapped[str | None] = mapped_column(String(128))


class ClosingPreview(Base):
    """A preview whose pull request was closed while its deployment could no longer be cancelled. It is removed after
    that deployment."""

    __tablename__ = "closing_previews"

    environment_id: Mapped[int] = mapped_column(
        ForeignKey("environments.id"), primary_key=True, autoincrement=False
    )
    source: Mapped[str] = mapped_column(String(100))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    person_id: Mapped[int | None]
    """The person who replayed the delivery; null if the Git host sent it."""
    token_id: Mapped[int | None]
    request_id: Mapped[str | None] = mapped_column(String(128))


class GitInstallation(Base):
    """One installation of the Git host's application, under the host's own number."""

    __tablename__ = "git_installations"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    login: Mapped[str] = mapped_column(String(200))
    """The account at the host that installed it."""
    suspended_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class InstalledRepository(Base):
    """A repository that an installation may see."""

    __tablename__ = "installed_repositories"

    installation_id: Mapped[int] = mapped_column(
        BigInteger, ForeignKey("git_installations.id"), primary_key=True, autoincrement=False
    )
    full_name: Mapped[str] = mapped_column(String(300), primary_key=True, index=True)
    """`owner/name` in lower case, as last reported; `?/<host_id>` after another repository has taken its name."""
    host_id: Mapped[str | None] = mapped_column(String(64))
    """The ID at the host, which a rename keeps; null: not reported yet."""
