"""`pharos key` against a running `pharos up`."""

import json
from pathlib import Path

from tests.support.platform_process import PlatformProcess, platform_process


def _status(platform: PlatformProcess, key: str, batch: str) -> int:
    body = json.dumps({"batch_id": batch, "events": [{"type": "log"}]}).encode()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    return platform.request("POST", "/api/v1/ingest", body=body, headers=headers).status


def test_keys_are_created_listed_and_revoked(tmp_path: Path) -> None:
    with platform_process(tmp_path / "data") as platform:
        first = platform.credentials["ingest_key"]
        created = json.loads(platform.run("keys", "create", "--json").stdout)
        expiring = json.loads(platform.run("key", "create", "--expires", "90d", "--json").stdout)
        assert expiring["expires_at"] is not None and created["expires_at"] is None
        assert created["environment_id"] == platform.credentials["environment_id"]
        assert _status(platform, created["key"], "1") == 202
        listed = platform.run("keys", "list").stdout
        assert "live" in listed and created["key"] not in listed
        # A key of another environment is found by its ID alone.
        assert platform.run("environment", "create", "Staging", "--type", "staging").returncode == 0
        other = json.loads(platform.run("key", "create", "--environment", "staging", "--json").stdout)
        assert "my-project/staging" in platform.run("key", "list").stdout
        assert json.loads(platform.run("key", "list", "--environment", "staging", "--json").stdout)[0] == {
            name: value for name, value in other.items() if name != "key"
        }
        assert platform.run("key", "revoke", str(other["id"]), "--yes").stdout.endswith(
            "my-project/staging is revoked.\n"
        )
        revoked = platform.run("key", "revoke", str(created["id"]), "--yes")
        assert (revoked.returncode, revoked.stderr) == (0, "")
        assert _status(platform, created["key"], "2") == 401
        assert _status(platform, first, "3") == 202
        assert "revoked" in platform.run("keys", "list").stdout
        for wrong, status in (
            (["revoke", "999", "--yes"], 5),
            (["create", "--environment", "nobody"], 5),
            (["revoke", "1"], 1),
        ):
            done = platform.run("key", *wrong)
            assert (
                done.returncode == status
                and done.stderr.startswith("pharos: ")
                and "Traceback" not in done.stderr
            )
        # A revoked key stays revoked after a start, which publishes all keys again.
        platform.stop()
        platform.start()
        assert _status(platform, created["key"], "4") == 401
        assert _status(platform, first, "5") == 202
