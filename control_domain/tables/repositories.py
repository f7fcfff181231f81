"""Rows of repositories."""

from datetime import datetime

from sqlalchemy import ForeignKey, String, false, true
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.base import Base, UtcDateTime, partial_index


class Repository(Base):
    """Where a project's code comes from. A project has one at a time; those before stay, for their deployments."""

    __tablename__ = "repositories"
    __table_args__ = (
        partial_index(
            "uq_repositories_connected", "project_id", condition="disconnected_at IS NULL", unique=True
        ),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"), index=True)
    kind: Mapped[str] = mapped_column(String(12))
    """`github`, `gitlab`, `bitbucket`, or `git` for any other."""
    url: Mapped[str] = mapped_column(String(500))
    branch: Mapped[str] = mapped_column(String(200))
    """What is deployed where neither a deploy nor its environment names another."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    disconnected_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    # Columns that came later: rows of before have the defaults.
    full_name: Mapped[str | None] = mapped_column(String(500), index=True)
    """`owner/name` on its host, in small letters; null: its address is of a machine's own folder."""
    push_deploys: Mapped[bool] = mapped_column(server_default=true())
    """Whether its webhooks are listened to."""
    allows_forks: Mapped[bool] = mapped_column(server_default=false())
    """Whether pull requests from forks get previews: anybody may open one."""
    is_sample: Mapped[bool] = mapped_column(server_default=false())
    """Whether a first start has made it, to be something to deploy: it gives way to the first one that is connected."""
    host_id: Mapped[str | None] = mapped_column(String(64), index=True)
    """The host's own ID of it, which renames and transfers keep; null: no delivery has told it yet."""
