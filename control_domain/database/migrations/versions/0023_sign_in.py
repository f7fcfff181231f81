"""Sign-in: passwords, sessions, one-time links, second factors, identities of OIDC providers, limits of attempts."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"

_time = sa.DateTime(timezone=True)


def upgrade() -> None:
    _create_passwords_and_links()
    _create_sessions()
    _create_second_factors()
    op.create_table(
        "oidc_identities",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("person_id", sa.Integer, nullable=False),
        sa.Column("issuer", sa.String(300), nullable=False),
        sa.Column("subject", sa.String(255), nullable=False),
        sa.Column("created_at", _time, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_oidc_identities")),
        sa.UniqueConstraint("issuer", "subject", name=op.f("uq_oidc_identities_issuer")),
        sa.UniqueConstraint("person_id", "issuer", name=op.f("uq_oidc_identities_person_id")),
        _of_person("oidc_identities"),
    )
    op.create_table(
        "sign_in_limits",
        sa.Column("key", sa.String(200), nullable=False),
        sa.Column("forgotten_at", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_sign_in_limits")),
    )


def _of_person(table: str, column: str = "person_id") -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], ["people.id"], name=op.f(f"fk_{table}_{column}_people"))


def _create_passwords_and_links() -> None:
    op.create_table(
        "passwords",
        sa.Column("person_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("hash", sa.String(200), nullable=False),
        sa.Column("changed_at", _time, nullable=False),
        sa.PrimaryKeyConstraint("person_id", name=op.f("pk_passwords")),
        _of_person("passwords"),
    )
    op.create_table(
        "sign_in_links",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("person_id", sa.Integer, nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("created_by_id", sa.Integer, nullable=True),
        sa.Column("created_at", _time, nullable=False),
        sa.Column("expires_at", _time, nullable=False),
        sa.Column("used_at", _time, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sign_in_links")),
        sa.UniqueConstraint("digest", name=op.f("uq_sign_in_links_digest")),
        _of_person("sign_in_links"),
        _of_person("sign_in_links", "created_by_id"),
    )
    op.create_index(op.f("ix_sign_in_links_person_id"), "sign_in_links", ["person_id"])


def _create_sessions() -> None:
    op.create_table(
        "sign_in_sessions",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("person_id", sa.Integer, nullable=False),
        sa.Column("account_id", sa.Integer, nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("previous_digest", sa.LargeBinary(32), nullable=True),
        sa.Column("rotated_at", _time, nullable=False),
        sa.Column("method", sa.String(20), nullable=False),
        sa.Column("created_at", _time, nullable=False),
        sa.Column("last_used_at", _time, nullable=False),
        sa.Column("expires_at", _time, nullable=False),
        sa.Column("revoked_at", _time, nullable=True),
        sa.Column("address", sa.String(100), nullable=False),
        sa.Column("network", sa.String(100), nullable=False),
        sa.Column("user_agent", sa.String(300), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sign_in_sessions")),
        sa.UniqueConstraint("digest", name=op.f("uq_sign_in_sessions_digest")),
        sa.UniqueConstraint("previous_digest", name=op.f("uq_sign_in_sessions_previous_digest")),
        _of_person("sign_in_sessions"),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_sign_in_sessions_account_id_accounts")
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_sign_in_sessions_person_id", "sign_in_sessions", ["person_id", "id"])


def _create_second_factors() -> None:
    op.create_table(
        "second_factors",
        sa.Column("person_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("key_id", sa.String(8), nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("created_at", _time, nullable=False),
        sa.Column("confirmed_at", _time, nullable=True),
        sa.Column("last_step", sa.BigInteger, nullable=True),
        sa.PrimaryKeyConstraint("person_id", name=op.f("pk_second_factors")),
        _of_person("second_factors"),
    )
    op.create_table(
        "recovery_codes",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("person_id", sa.Integer, nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("used_at", _time, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_recovery_codes")),
        sa.UniqueConstraint("person_id", "digest", name=op.f("uq_recovery_codes_person_id")),
        _of_person("recovery_codes"),
    )
