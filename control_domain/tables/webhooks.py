"""Rows of webhooks: secrets, the deliveries of the last days, what waits, installations of the application."""

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, LargeBinary, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.base import Base, UtcDateTime, partial_index


class SealedWebhookSecret(Base):
    """What a repository's webhooks are checked with. A repository without one has no webhook."""

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
    """One delivery whose signature was good, kept for 7 days, and what it was answered."""

    __tablename__ = "webhook_deliveries"
    __table_args__ = (
        # The database itself holds "once": of any number of the same at once, one gets in.
        partial_index(
            "uq_webhook_deliveries_seen",
            "scope",
            "delivery",
            condition="is_first",
            unique=True,
        ),
        Index("ix_webhook_deliveries_received_at", "received_at"),
        Index("ix_webhook_deliveries_repository_id", "repository_id", "id"),
        # No number twice: whoever kept one would run another delivery again.
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    repository_id: Mapped[int | None] = mapped_column(ForeignKey("repositories.id"))
    """Null: of the Git host's application."""
    scope: Mapped[str] = mapped_column(String(20))
    """Whose deliveries are told apart by their IDs: the repository's number, or `app`."""
    delivery: Mapped[str] = mapped_column(String(255))
    """The host's ID of it; the body's digest where it gives none."""
    is_first: Mapped[bool]
    """Whether later ones with its ID are duplicates. What was refused, or replayed, keeps none back."""
    kind: Mapped[str] = mapped_column(String(12))
    """The provider."""
    event: Mapped[str] = mapped_column(String(100))
    headers: Mapped[str] = mapped_column(Text)
    """JSON; signatures and tokens are left out."""
    body: Mapped[bytes] = mapped_column(LargeBinary)
    """As it came, compressed with zlib; empty once it gave way to newer ones, and `headers` is then `{}`."""
    http_status: Mapped[int]
    answer: Mapped[str] = mapped_column(String(30))
    """The `status` that it was answered, or the problem's slug."""
    deployment_id: Mapped[int | None]
    """No reference: deployments end with their project, and this is what was answered."""
    reason: Mapped[str | None] = mapped_column(Text)
    """Why nothing was done, for people."""
    replay_of: Mapped[int | None]
    """The ID of the delivery that was run again."""
    received_at: Mapped[datetime] = mapped_column(UtcDateTime)


class WaitingPush(Base):
    """The newest push of a branch that came while a deployment of its environment was active."""

    __tablename__ = "waiting_pushes"
    __table_args__ = (UniqueConstraint("environment_id", "branch"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"))
    repository_id: Mapped[int] = mapped_column(ForeignKey("repositories.id"), index=True)
    branch: Mapped[str] = mapped_column(String(200))
    """What is deployed: the branch, or the ref of a fork's pull request."""
    trigger: Mapped[str] = mapped_column(String(20))
    """`push` or `pull_request`."""
    pushed_revision: Mapped[str | None] = mapped_column(String(64))
    pushed_from: Mapped[str | None] = mapped_column(String(64))
    note: Mapped[str | None] = mapped_column(String(500))
    source: Mapped[str] = mapped_column(String(100))
    """Who the audit log says has done it."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class ClosingPreview(Base):
    """A preview whose pull request was closed while its deployment could not be called off any more: it is removed
    behind that."""

    __tablename__ = "closing_previews"

    environment_id: Mapped[int] = mapped_column(
        ForeignKey("environments.id"), primary_key=True, autoincrement=False
    )
    source: Mapped[str] = mapped_column(String(100))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class GitInstallation(Base):
    """One installation of the Git host's application, under the host's own number."""

    __tablename__ = "git_installations"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    login: Mapped[str] = mapped_column(String(200))
    """Whose account it is installed in."""
    suspended_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class InstalledRepository(Base):
    """A repository that an installation may see."""

    __tablename__ = "installed_repositories"

    installation_id: Mapped[int] = mapped_column(
        BigInteger, ForeignKey("git_installations.id"), primary_key=True, autoincrement=False
    )
    full_name: Mapped[str] = mapped_column(String(300), primary_key=True, index=True)
    """`owner/name` in small letters, as the host called it last; `?/<host_id>` once another one has its name."""
    host_id: Mapped[str | None] = mapped_column(String(64))
    """The host's ID of it, which a rename keeps; null: not told yet."""
