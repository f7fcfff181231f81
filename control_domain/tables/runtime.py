"""Rows of leases and running instances, written by deployers."""

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.base import Base, UtcDateTime


class EnvironmentLease(Base):
    """The deployer that works on an environment, and when its lease ends without a renewal."""

    __tablename__ = "environment_leases"

    environment_id: Mapped[int] = mapped_column(
        ForeignKey("environments.id"), primary_key=True, autoincrement=False
    )
    holder: Mapped[str] = mapped_column(String(40))
    """The ID of the deployer, which survives restarts."""
    holder_name: Mapped[str] = mapped_column(String(200))
    """Machine and folder of the deployer, for people."""
    fence: Mapped[int] = mapped_column(BigInteger)
    """Incremented each time the lease is taken. A deployer's writes name its fence, so a slow former holder changes
    nothing."""
    leased_until: Mapped[datetime] = mapped_column(UtcDateTime)
    address: Mapped[str | None] = mapped_column(String(300))
    """The URL of the environment: `http://production.shop.localhost:8090`."""
    doing: Mapped[str | None] = mapped_column(String(200))
    """The present work of the deployer; null while it only reconciles."""


class Instance(Base):
    """One process of an environment, as last reported by its deployer."""

    __tablename__ = "instances"

    id: Mapped[int] = mapped_column(primary_key=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"), index=True)
    deployment_id: Mapped[int] = mapped_column(ForeignKey("deployments.id"), index=True)
    """The deployment that made it live: after a rollback, the rollback itself and not the deployment that built the
    release."""
    process: Mapped[str] = mapped_column(String(30))
    """Its name in the workflow document."""
    number: Mapped[int]
    """From 1 within its process."""
    state: Mapped[str] = mapped_column(String(12))
    """`starting`, `running`, `waiting` to be started again, or `draining`."""
    port: Mapped[int | None]
    pid: Mapped[int | None]
    restarts: Mapped[int]
    last_exit: Mapped[str | None] = mapped_column(String(300))
    """How it last exited; null: not yet."""
    started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class DatabaseToken(Base):
    """One row with a random text, made together with the tables. A deployer that reads another text is connected to
    another database and must not stop its applications because they are missing there."""

    __tablename__ = "database_token"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    token: Mapped[str] = mapped_column(String(32))
