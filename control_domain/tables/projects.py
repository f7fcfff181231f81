"""Rows of projects, who may use Deploy in them, environments and ingest keys."""

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
    """What a person may do with Deploy in a project; owners and admins of the account need none."""

    __tablename__ = "project_roles"

    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"), primary_key=True, autoincrement=False)
    person_id: Mapped[int] = mapped_column(
        ForeignKey("people.id"), primary_key=True, autoincrement=False, index=True
    )
    role: Mapped[str] = mapped_column(String(20))


UNKNOWN_SOURCE_ID = 0
"""No environment has this number."""


class Environment(Base):
    """Where a project runs and what its telemetry is filed under."""

    __tablename__ = "environments"
    __table_args__ = (UniqueConstraint("project_id", "slug"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(primary_key=True)
    public_id: Mapped[str] = mapped_column(String(40), unique=True)
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"))
    name: Mapped[str] = mapped_column(String(100))
    slug: Mapped[str] = mapped_column(String(100))
    type: Mapped[str] = mapped_column(String(20))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    # Columns that came later: rows of before have the defaults.
    position: Mapped[int] = mapped_column(server_default=text("1"))
    """A deployment is promoted to environments of a higher one only."""
    branch: Mapped[str | None] = mapped_column(String(200))
    """What is deployed where a deploy names nothing else; null: the repository's branch."""
    desired_replicas: Mapped[int] = mapped_column(server_default=text("1"))
    state: Mapped[str] = mapped_column(String(12), server_default="running")
    """An `EnvironmentState`: what is wanted; the deployer brings it about."""
    deploy_window: Mapped[str | None] = mapped_column(Text)
    """JSON of a `DeployWindow`; null: at any time."""
    deploys_need_approval: Mapped[bool] = mapped_column(server_default=false())
    variables_need_approval: Mapped[bool] = mapped_column(server_default=false())
    wake_on_request: Mapped[bool] = mapped_column(server_default=false())
    """Whether the first request wakes it when it hibernates."""
    variables_of_id: Mapped[int | None]
    """The environment whose variables were copied here last; `UNKNOWN_SOURCE_ID` where an earlier version did that."""


class EnvironmentLock(Base):
    """While it is there, nobody deploys to the environment."""

    __tablename__ = "environment_locks"

    environment_id: Mapped[int] = mapped_column(
        ForeignKey("environments.id"), primary_key=True, autoincrement=False
    )
    reason: Mapped[str] = mapped_column(String(500))
    person_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    locked_at: Mapped[datetime] = mapped_column(UtcDateTime)


class IngestKey(Base):
    """A key that opens ingest for one environment: the digest of its secret and its life."""

    __tablename__ = "ingest_keys"
    __table_args__ = {"sqlite_autoincrement": True}

    id: Mapped[int] = mapped_column(primary_key=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"), index=True)
    digest: Mapped[bytes] = mapped_column(LargeBinary(32), unique=True)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
