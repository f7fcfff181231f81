"""`pharos backup` on a running platform with the real engines."""

import json
from pathlib import Path

from operator_cli.local.operator_socket import query_socket
from tests.support.commands import expect_refusal, run_json, run_text
from tests.support.platform_process import PlatformProcess


def test_a_running_platform_is_backed_up_tested_and_restored(
    on_socket: PlatformProcess, tmp_path: Path
) -> None:
    pharos = on_socket.run
    assert run_json(pharos, "backup", "list") == []
    made = run_json(pharos, "backup", "create", "--to", str(tmp_path / "to"))
    rows = query_socket(on_socket.data, "SELECT count() AS rows FROM pharos.applied_schema")
    assert f'"rows":{made["counts"]["column_store"]["applied_schema"]["rows"]}' in rows.replace(" ", "")
    assert run_text(pharos, "backup", "list", "--from", str(tmp_path / "to"), "-q") == f"{made['name']}\n"
    document = on_socket.request(
        "GET",
        "/api/v1/storage/backups",
        headers={"Authorization": f"Bearer {on_socket.credentials['api_token']}"},
    ).json["data"]
    assert (document["is_supported"], document["backups"], document["every_hours"]) == (True, [], None)
    assert document["last_attempt"]["name"] == made["name"] and document["last_attempt"]["error"] is None
    result = run_json(pharos, "backup", "verify", made["path"])
    assert (result["passed"], result["problems"]) == (True, [])
    (listed,) = run_json(pharos, "backup", "list", "--from", str(tmp_path / "to"))
    assert listed["restore_test"] == {name: result[name] for name in ("at", "passed", "seconds", "problems")}
    message = expect_refusal(
        pharos,
        "backup",
        "restore",
        made["name"],
        "--from",
        str(tmp_path / "to"),
        "--data",
        str(on_socket.data),
    )
    assert "is not empty" in message
    assert "There is no backup nothing" in expect_refusal(pharos, "backup", "verify", "nothing", status=5)
    # A backup whose counts differ from its manifest does not pass, and the command fails.
    path = Path(made["path"]) / "manifest.json"
    manifest = json.loads(path.read_text())
    # Other tests of this platform may have created projects.
    number = made["counts"]["control"]["projects"]
    manifest["counts"]["control"]["projects"] = number + 1
    path.write_text(json.dumps(manifest))
    done = pharos("backup", "verify", made["path"], "--json")
    assert (done.returncode, f"projects has {number}, and had {number + 1}" in done.stdout) == (1, True)
