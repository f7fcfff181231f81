"""Rows of projects, roles in them, environments and ingest keys."""

from datetime import datetime

from sqlalchemy import ForeignKey, LargeBinary, String, Text, UniqueConstraint, false, text
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.base import Base, UtcDateTime


class Project(Base):
    """One application with its environments."""

    __tablename__ = "projects"
    __table_args__ = (UniqueConstraint("account_id", "slug"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(primary_key=True)
    public_id: Mapped[str] = mapped_column(String(40), unique=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"))
    name: Mapped[str] = mapped_column(String(100))
    slug: Mapped[str] = mapped_column(String(100))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class ProjectRole(Base):
    """A person's role in a project. Owners and admins of the account need none."""

    __tablename__ = "project_roles"

    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"), primary_key=True, autoincrement=False)
    person_id: Mapped[int] = mapped_column(
        ForeignKey("people.id"), primary_key=True, autoincrement=False, index=True
    )
    role: Mapped[str] = mapped_column(String(20))


UNKNOWN_SOURCE_ID = 0
"""Value of `Environment.variables_of_id` for copies of an earlier version. No environment has this ID."""


class Environment(Base):
    """An environment of a project: what runs there, and the scope of its telemetry."""

    __tablename__ = "environments"
    __table_args__ = (UniqueConstraint("project_id", "slug"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(primary_key=True)
    public_id: Mapped[str] = mapped_column(String(40), unique=True)
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"))
    name: Mapped[str] = mapped_column(String(100))
    slug: Mapped[str] = mapped_column(String(100))
    type: Mapped[str] = mapped_column(String(20))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    # Later migrations added these columns; older rows have the defaults.
    position: Mapped[int] = mapped_column(server_default=text("1"))
    """Deployments are promoted only to environments with a higher position."""
    branch: Mapped[str | None] = mapped_column(String(200))
    """The branch that is deployed by default; null: that of the repository."""
    desired_replicas: Mapped[int] = mapped_column(server_default=text("1"))
    state: Mapped[str] = mapped_column(String(12), server_default="running")
    """An `EnvironmentState`: the desired state, which the deployer reconciles."""
    deploy_window: Mapped[str | None] = mapped_column(Text)
    """JSON of a `DeployWindow`; null: at any time."""
    deploys_need_approval: Mapped[bool] = mapped_column(server_default=false())
    variables_need_approval: Mapped[bool] = mapped_column(server_default=false())
    wake_on_request: Mapped[bool] = mapped_column(server_default=false())
    """True if a request wakes the environment from hibernation."""
    variables_of_id: Mapped[int | None]
    """The environment (not a preview) whose variables were last copied here; `UNKNOWN_SOURCE_ID` if an earlier version
    copied them."""


class EnvironmentLock(Base):
    """The lock of an environment, which refuses deployments while the row exists."""

    __tablename__ = "environment_locks"

    environment_id: Mapped[int] = mapped_column(
        ForeignKey("environments.id"), primary_key=True, autoincrement=False
    )
    reason: Mapped[str] = mapped_column(String(500))
    person_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    locked_at: Mapped[datetime] = mapped_column(UtcDateTime)


class EnvironmentPingKey(Base):
    """A key in the ping URLs of all heartbeats of an environment: the digest of its secret and its lifetime."""

    __tablename__ = "environment_ping_keys"
    __table_args__ = {"sqlite_autoincrement": True}

    id: Mapped[int] = mapped_column(primary_key=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"), index=True)
    digest: Mapped[bytes] = mapped_column(LargeBinary(32), unique=True)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class IngestKey(Base):
    """A key for ingest into one environment: the digest of its secret and its lifetime.

    The deployer gives one key of each environment to the deployed application, so the secret of that key is stored
    sealed. `sealed` is None for every other key, and once the key is revoked.
    """

    __tablename__ = "ingest_keys"
    __table_args__ = {"sqlite_autoincrement": True}

    id: Mapped[int] = mapped_column(primary_key=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"), index=True)
    digest: Mapped[bytes] = mapped_column(LargeBinary(32), unique=True)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    name: Mapped[str | None] = mapped_column(String(100))
    """What the key is for; None for a key that a person created."""
    sealing_key_id: Mapped[str | None] = mapped_column(String(8))
    sealed: Mapped[bytes | None] = mapped_column(LargeBinary)
