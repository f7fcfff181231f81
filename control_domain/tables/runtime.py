"""Rows of leases and of running instances: written by deployers, read by whoever asks what runs."""

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.base import Base, UtcDateTime


class EnvironmentLease(Base):
    """Which deployer carries out what is asked of an environment, and until when it need not say so again."""

    __tablename__ = "environment_leases"

    environment_id: Mapped[int] = mapped_column(
        ForeignKey("environments.id"), primary_key=True, autoincrement=False
    )
    holder: Mapped[str] = mapped_column(String(40))
    """The deployer's ID, which it keeps over a restart."""
    holder_name: Mapped[str] = mapped_column(String(200))
    """Its machine and folder, for people."""
    fence: Mapped[int] = mapped_column(BigInteger)
    """Grows with each taking. What a deployer writes names the one that it took: a former holder that was only slow
    changes nothing."""
    leased_until: Mapped[datetime] = mapped_column(UtcDateTime)
    address: Mapped[str | None] = mapped_column(String(300))
    """Where the environment answers: `http://production.shop.localhost:8090`."""
    doing: Mapped[str | None] = mapped_column(String(200))
    """What it is at just now; null: nothing but keeping what runs."""


class Instance(Base):
    """One process of an environment, as its deployer last saw it."""

    __tablename__ = "instances"

    id: Mapped[int] = mapped_column(primary_key=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"), index=True)
    deployment_id: Mapped[int] = mapped_column(ForeignKey("deployments.id"), index=True)
    """The one that brought it: a rollback's own, not the one that was built."""
    process: Mapped[str] = mapped_column(String(30))
    """As the workflow document calls it."""
    number: Mapped[int]
    """From 1 among those of its process."""
    state: Mapped[str] = mapped_column(String(12))
    """`starting`, `running`, `waiting` to be started again, or `draining`."""
    port: Mapped[int | None]
    pid: Mapped[int | None]
    restarts: Mapped[int]
    last_exit: Mapped[str | None] = mapped_column(String(300))
    """How it last ended; null: it has not."""
    started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class DatabaseToken(Base):
    """One row with a random text that was made together with the tables. A deployer that finds another one is connected
    to another database, in which none of its applications is wanted."""

    __tablename__ = "database_token"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    token: Mapped[str] = mapped_column(String(32))
