"""Alert events, incidents, thresholds, notification rules, channels, silences, and notifications."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"

_time = sa.DateTime(timezone=True)
_big = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "alert_clocks",
        sa.Column("name", sa.String(length=60), nullable=False),
        sa.Column("through", _time, nullable=False),
        sa.Column("blind_since", _time, nullable=True),
        sa.Column("holder", sa.String(length=32), nullable=True),
        sa.Column("leased_until", _time, nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_alert_clocks")),
    )
    op.create_table(
        "alert_states",
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("phase", sa.String(length=10), nullable=False),
        sa.Column("since", _time, nullable=False),
        sa.Column("value", sa.Float(), nullable=True),
        sa.Column("details", sa.Text(), server_default="{}", nullable=False),
        sa.Column("evaluated_at", _time, nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_alert_states")),
    )
    op.create_table(
        "alert_events",
        sa.Column("id", _big, nullable=False),
        sa.Column("account_id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=True),
        sa.Column("environment_id", sa.Integer(), nullable=True),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("subject", sa.String(length=160), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_alert_events_account_id_accounts")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert_events")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_alert_events_account_id", "alert_events", ["account_id", "id"])
    op.create_table(
        "alert_incidents",
        sa.Column("id", _big, nullable=False),
        sa.Column("public_id", sa.String(length=40), nullable=False),
        sa.Column("open_key", sa.String(length=240), nullable=True),
        sa.Column("account_id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=True),
        sa.Column("environment_id", sa.Integer(), nullable=True),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("subject", sa.String(length=160), nullable=False),
        sa.Column("severity", sa.String(length=10), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("started_at", _time, nullable=False),
        sa.Column("changed_at", _time, nullable=False),
        sa.Column("resolved_at", _time, nullable=True),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("acknowledged_at", _time, nullable=True),
        sa.Column("acknowledged_by_id", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_alert_incidents_account_id_accounts")
        ),
        sa.ForeignKeyConstraint(
            ["acknowledged_by_id"], ["people.id"], name=op.f("fk_alert_incidents_acknowledged_by_id_people")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert_incidents")),
        sa.UniqueConstraint("open_key", name=op.f("uq_alert_incidents_open_key")),
        sa.UniqueConstraint("public_id", name=op.f("uq_alert_incidents_public_id")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_alert_incidents_account_id", "alert_incidents", ["account_id", "id"])
    op.create_index("ix_alert_incidents_environment_id", "alert_incidents", ["environment_id"])
    op.create_index(
        "ix_alert_incidents_firing",
        "alert_incidents",
        ["account_id", "id"],
        sqlite_where=sa.text("open_key IS NOT NULL"),
    )
    op.create_table(
        "notification_channels",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(length=40), nullable=False),
        sa.Column("account_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("type", sa.String(length=20), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("sealing_key_id", sa.String(length=8), nullable=True),
        sa.Column("sealed", sa.LargeBinary(), nullable=True),
        sa.Column("quiet_hours", sa.Text(), nullable=True),
        sa.Column("enabled", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("failing_since", _time, nullable=True),
        sa.Column("last_error", sa.String(length=500), nullable=True),
        sa.Column("tested_at", _time, nullable=True),
        sa.Column("created_at", _time, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_notification_channels_account_id_accounts")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notification_channels")),
        sa.UniqueConstraint("account_id", "name", name=op.f("uq_notification_channels_account_id")),
        sa.UniqueConstraint("public_id", name=op.f("uq_notification_channels_public_id")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "notification_preferences",
        sa.Column("person_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("quiet_hours", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["person_id"], ["people.id"], name=op.f("fk_notification_preferences_person_id_people")
        ),
        sa.PrimaryKeyConstraint("person_id", name=op.f("pk_notification_preferences")),
    )
    op.create_table(
        "notification_silences",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("account_id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=True),
        sa.Column("environment_id", sa.Integer(), nullable=True),
        sa.Column("kinds", sa.Text(), nullable=True),
        sa.Column("incident_id", sa.BigInteger(), nullable=True),
        sa.Column("starts_at", _time, nullable=False),
        sa.Column("ends_at", _time, nullable=False),
        sa.Column("reason", sa.String(length=500), nullable=False),
        sa.Column("person_id", sa.Integer(), nullable=True),
        sa.Column("created_at", _time, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_notification_silences_account_id_accounts")
        ),
        sa.ForeignKeyConstraint(
            ["person_id"], ["people.id"], name=op.f("fk_notification_silences_person_id_people")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notification_silences")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_notification_silences_account_id", "notification_silences", ["account_id", "ends_at"])
    op.create_table(
        "notification_groups",
        sa.Column("id", _big, nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("public_id", sa.String(length=40), nullable=False),
        sa.Column("account_id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=True),
        sa.Column("environment_id", sa.Integer(), nullable=True),
        sa.Column("family", sa.String(length=20), nullable=False),
        sa.Column("channel_id", sa.Integer(), nullable=True),
        sa.Column("person_id", sa.Integer(), nullable=True),
        sa.Column("due_at", _time, nullable=True),
        sa.Column("sent_at", _time, nullable=True),
        sa.Column("remind_at", _time, nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_notification_groups_account_id_accounts")
        ),
        sa.ForeignKeyConstraint(
            ["channel_id"],
            ["notification_channels.id"],
            name=op.f("fk_notification_groups_channel_id_notification_channels"),
        ),
        sa.ForeignKeyConstraint(
            ["person_id"], ["people.id"], name=op.f("fk_notification_groups_person_id_people")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notification_groups")),
        sa.UniqueConstraint("key", name=op.f("uq_notification_groups_key")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_notification_groups_channel_id"), "notification_groups", ["channel_id"])
    op.create_index("ix_notification_groups_due_at", "notification_groups", ["due_at"])
    op.create_table(
        "notifications",
        sa.Column("id", _big, nullable=False),
        sa.Column("public_id", sa.String(length=40), nullable=False),
        sa.Column("account_id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=True),
        sa.Column("environment_id", sa.Integer(), nullable=True),
        sa.Column("group_id", sa.BigInteger(), nullable=False),
        sa.Column("channel_id", sa.Integer(), nullable=True),
        sa.Column("person_id", sa.Integer(), nullable=True),
        sa.Column("recipient", sa.String(length=300), nullable=False),
        sa.Column("created_at", _time, nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("title", sa.String(length=300), nullable=False),
        sa.Column("status", sa.String(length=10), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("requested_at", _time, nullable=True),
        sa.Column("next_attempt_at", _time, nullable=False),
        sa.Column("leased_until", _time, nullable=True),
        sa.Column("sent_at", _time, nullable=True),
        sa.Column("last_error", sa.String(length=500), nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_notifications_account_id_accounts")
        ),
        sa.ForeignKeyConstraint(["person_id"], ["people.id"], name=op.f("fk_notifications_person_id_people")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notifications")),
        sa.UniqueConstraint("public_id", name=op.f("uq_notifications_public_id")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_notifications_account_id", "notifications", ["account_id", "id"])
    op.create_index(op.f("ix_notifications_channel_id"), "notifications", ["channel_id"])
    op.create_index("ix_notifications_group_id", "notifications", ["group_id", "id"])
    op.create_index(
        "ix_notifications_pending",
        "notifications",
        ["next_attempt_at"],
        sqlite_where=sa.text("status = 'pending'"),
    )
    op.create_index(
        "ix_notifications_pending_of_group",
        "notifications",
        ["group_id", "id"],
        sqlite_where=sa.text("status = 'pending'"),
    )
    op.create_index(
        "ix_notifications_leased",
        "notifications",
        ["leased_until"],
        sqlite_where=sa.text("leased_until IS NOT NULL"),
    )
    op.create_table(
        "alert_thresholds",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("environment_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("target", sa.String(length=255), nullable=False),
        sa.Column("service", sa.String(length=255), nullable=True),
        sa.Column("aggregation", sa.String(length=10), server_default="avg", nullable=False),
        sa.Column("is_above", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("threshold", sa.Float(), nullable=False),
        sa.Column("recovery", sa.Float(), nullable=False),
        sa.Column("window_seconds", sa.Integer(), nullable=False),
        sa.Column("pending_seconds", sa.Integer(), nullable=False),
        sa.Column("severity", sa.String(length=10), nullable=False),
        sa.Column("enabled", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("created_at", _time, nullable=False),
        sa.ForeignKeyConstraint(
            ["environment_id"],
            ["environments.id"],
            name=op.f("fk_alert_thresholds_environment_id_environments"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert_thresholds")),
        sa.UniqueConstraint("environment_id", "name", name=op.f("uq_alert_thresholds_environment_id")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "notification_attempts",
        sa.Column("id", _big, nullable=False),
        sa.Column("notification_id", _big, nullable=False),
        sa.Column("at", _time, nullable=False),
        sa.Column("took_ms", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.String(length=10), nullable=False),
        sa.Column("error", sa.String(length=500), nullable=True),
        sa.Column("requested", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.ForeignKeyConstraint(
            ["notification_id"],
            ["notifications.id"],
            name=op.f("fk_notification_attempts_notification_id_notifications"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notification_attempts")),
    )
    op.create_index(
        "ix_notification_attempts_notification_id", "notification_attempts", ["notification_id", "id"]
    )
    op.create_table(
        "notification_members",
        sa.Column("group_id", _big, autoincrement=False, nullable=False),
        sa.Column("incident_id", _big, autoincrement=False, nullable=False),
        sa.Column("sent", sa.String(length=10), nullable=True),
        sa.Column("pending", sa.String(length=10), nullable=True),
        sa.Column("pending_since", _time, nullable=True),
        sa.Column("reminders", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"],
            ["notification_groups.id"],
            name=op.f("fk_notification_members_group_id_notification_groups"),
        ),
        sa.ForeignKeyConstraint(
            ["incident_id"],
            ["alert_incidents.id"],
            name=op.f("fk_notification_members_incident_id_alert_incidents"),
        ),
        sa.PrimaryKeyConstraint("group_id", "incident_id", name=op.f("pk_notification_members")),
    )
    op.create_index("ix_notification_members_incident_id", "notification_members", ["incident_id"])
    op.create_index(
        "ix_notification_members_pending",
        "notification_members",
        ["group_id", "pending_since"],
        sqlite_where=sa.text("pending IS NOT NULL"),
    )
    op.create_table(
        "notification_rules",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("account_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=True),
        sa.Column("environment_id", sa.Integer(), nullable=True),
        sa.Column("kinds", sa.Text(), nullable=True),
        sa.Column("min_severity", sa.String(length=10), server_default="info", nullable=False),
        sa.Column("recipients", sa.Text(), nullable=False),
        sa.Column("reminders", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("enabled", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("created_at", _time, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_notification_rules_account_id_accounts")
        ),
        sa.ForeignKeyConstraint(
            ["environment_id"],
            ["environments.id"],
            name=op.f("fk_notification_rules_environment_id_environments"),
        ),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_notification_rules_project_id_projects")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notification_rules")),
        sa.UniqueConstraint("account_id", "name", name=op.f("uq_notification_rules_account_id")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_notification_rules_environment_id"), "notification_rules", ["environment_id"])
    op.create_index(op.f("ix_notification_rules_project_id"), "notification_rules", ["project_id"])
    op.add_column("heartbeat_states", sa.Column("alerted", sa.String(length=10), nullable=True))
    for column in ("blind_from_ms", "blind_to_ms", "blind_ms"):
        op.add_column("heartbeat_states", sa.Column(column, sa.BigInteger(), nullable=True))
    # Heartbeats that were late or down before the upgrade raise no alarm by it.
    op.execute("UPDATE heartbeat_states SET alerted = state WHERE state IN ('late', 'down')")
    # The scan has a clock from now on. It shows when signals were last applied, so that the time of the upgrade counts
    # as one in which nothing was judged, and no heartbeat that was due in it is down.
    op.execute(
        "INSERT INTO monitor_progress (topic, partition, applied_through_ms)"
        " SELECT 'scan', 0, max(applied_through_ms) FROM monitor_progress WHERE topic = 'pharos.heartbeats'"
        " HAVING max(applied_through_ms) IS NOT NULL"
    )
