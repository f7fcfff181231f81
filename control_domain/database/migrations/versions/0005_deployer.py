"""What the deployer keeps: leases, running instances, workflow documents, and how far each deployment is."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_time = sa.DateTime(timezone=True)


def upgrade() -> None:
    _workflows()
    _runtime()
    op.add_column("deployments", sa.Column("step", sa.String(12), nullable=True))
    op.add_column(
        "deployments", sa.Column("attempts", sa.Integer, server_default=sa.text("0"), nullable=False)
    )
    op.add_column("releases", sa.Column("workflow", sa.Text, server_default="{}", nullable=False))
    op.add_column(
        "environments", sa.Column("wake_on_request", sa.Boolean, server_default=sa.false(), nullable=False)
    )
    with op.batch_alter_table("live_releases") as live:
        live.add_column(sa.Column("held", sa.Boolean, server_default=sa.false(), nullable=False))
        live.add_column(sa.Column("deployment_id", sa.Integer, nullable=True))
        live.create_foreign_key(
            "fk_live_releases_deployment_id_deployments", "deployments", ["deployment_id"], ["id"]
        )
    op.create_index("ix_live_releases_deployment_id", "live_releases", ["deployment_id"])


def _workflows() -> None:
    op.create_table(
        "workflows",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("project_id", sa.Integer, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("set_by_id", sa.Integer, nullable=True),
        sa.Column("created_at", _time, nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_workflows_project_id_projects"),
        sa.ForeignKeyConstraint(["set_by_id"], ["people.id"], name="fk_workflows_set_by_id_people"),
        sa.PrimaryKeyConstraint("id", name="pk_workflows"),
        sa.UniqueConstraint("project_id", "version", name="uq_workflows_project_id"),
    )


def _runtime() -> None:
    op.create_table(
        "environment_leases",
        sa.Column("environment_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("holder", sa.String(40), nullable=False),
        sa.Column("holder_name", sa.String(200), nullable=False),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("leased_until", _time, nullable=False),
        sa.Column("address", sa.String(300), nullable=True),
        sa.Column("doing", sa.String(200), nullable=True),
        sa.ForeignKeyConstraint(
            ["environment_id"], ["environments.id"], name="fk_environment_leases_environment_id_environments"
        ),
        sa.PrimaryKeyConstraint("environment_id", name="pk_environment_leases"),
    )
    op.create_table(
        "instances",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("environment_id", sa.Integer, nullable=False),
        sa.Column("deployment_id", sa.Integer, nullable=False),
        sa.Column("process", sa.String(30), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("state", sa.String(12), nullable=False),
        sa.Column("port", sa.Integer, nullable=True),
        sa.Column("pid", sa.Integer, nullable=True),
        sa.Column("restarts", sa.Integer, nullable=False),
        sa.Column("last_exit", sa.String(300), nullable=True),
        sa.Column("started_at", _time, nullable=True),
        sa.ForeignKeyConstraint(
            ["environment_id"], ["environments.id"], name="fk_instances_environment_id_environments"
        ),
        sa.ForeignKeyConstraint(
            ["deployment_id"], ["deployments.id"], name="fk_instances_deployment_id_deployments"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_instances"),
    )
    op.create_index("ix_instances_environment_id", "instances", ["environment_id"])
    op.create_index("ix_instances_deployment_id", "instances", ["deployment_id"])
