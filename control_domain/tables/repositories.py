"""Rows of repositories."""

from datetime import datetime

from sqlalchemy import ForeignKey, String, false, true
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.base import Base, UtcDateTime, partial_index


class Repository(Base):
    """The source of a project's code. A project has one connected repository; former ones stay for their
    deployments."""

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
    """The branch that is deployed if neither the deployment nor the environment names another."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    disconnected_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    # Later migrations added these columns; older rows have the defaults.
    full_name: Mapped[str | None] = mapped_column(String(500), index=True)
    """`owner/name` on its host, in lower case; null for a local folder."""
    push_deploys: Mapped[bool] = mapped_column(server_default=true())
    """True if its webhooks deploy."""
    allows_forks: Mapped[bool] = mapped_column(server_default=false())
    """True if pull requests from forks get previews, although anybody can open one."""
    is_sample: Mapped[bool] = mapped_column(server_default=false())
    """True for the sample of a first start, which the first connected repository replaces."""
    host_id: Mapped[str | None] = mapped_column(String(64), index=True)
    """The ID at the host, which renames and transfers keep; null: no delivery has reported it yet."""
