"""Names of heartbeats: their digests, and the names that a ping may create."""

from pipeline_contracts.heartbeat_names import digest_heartbeat_name, may_create_heartbeat


def test_digests_differ_by_environment_and_by_name() -> None:
    pairs = [
        ("env_1", "backup"),
        ("env_2", "backup"),
        ("env_1", "Backup"),
        ("env_1", "backup "),
        ("env_1b", "ackup"),
    ]
    assert len({digest_heartbeat_name(*pair) for pair in pairs}) == len(pairs)
    # The directory keeps these digests: another function loses every name at an upgrade.
    assert digest_heartbeat_name("env_1", "nächtlich").hex().startswith("2d7a2278")
    assert len(digest_heartbeat_name("env_1", "\ud83d")) == 32


def test_names_that_a_ping_may_create() -> None:
    for name in ("backup", "B", "db.backup_2-eu", "0", "a" * 100):
        assert may_create_heartbeat(name), name
    for name in ("", "-x", ".x", "_x", "a b", "a/b", "a\n", "ä", "a" * 101, "a%20b", "\u0663"):
        assert not may_create_heartbeat(name), name
