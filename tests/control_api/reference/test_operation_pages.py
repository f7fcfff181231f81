"""The requests on the pages of the API: commands that send a valid body, and are accepted by the real application."""

import json
import re
import shlex
from typing import Any

import pytest

from control_api.reference.load_document import load_document
from control_api.reference.operation_pages import INDEX, list_operation_pages
from tests.control_api.management.conftest import Api, api, prepared

__all__ = ["api", "prepared"]

_METHODS = ("get", "post", "put", "patch", "delete", "options")
_OPERATIONS = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, item in load_document()["paths"].items()
    for method, operation in item.items()
    if method in _METHODS
}


def _read_commands() -> dict[tuple[str, str], list[str]]:
    """Return the words of the command of each operation, by its method and path on the host."""
    commands = {}
    for address, (_, write) in list_operation_pages().items():
        if address == INDEX:
            continue
        for heading, command in re.findall(r"^`([A-Z]+ /[^`]*)`.*?```sh\n(.*?)```", write(), re.M | re.S):
            method, path = heading.split(" ")
            commands[method, path] = shlex.split(command.replace("\\\n", " "))
            for line in command.splitlines():
                # A text cannot be wrapped, and neither can an address.
                assert len(line) <= 80 or re.match(r'curl -sS |  "', line), line
    return commands


_COMMANDS = _read_commands()


@pytest.mark.parametrize("name", [name for name, one in _OPERATIONS.items() if "requestBody" in one[2]])
def test_a_request_with_a_body_shows_one(name: str) -> None:
    method, path, operation = _OPERATIONS[name]
    content_type, media = next(iter(operation["requestBody"]["content"].items()))
    examples = (
        [media["example"]] if "example" in media else [one["value"] for one in media["examples"].values()]
    )
    words = _COMMANDS[method, path if path.startswith("/ping/") else f"/api{path}"]
    body = words[words.index("-d") + 1]
    if content_type == "application/json":
        assert f"Content-Type: {content_type}" in words
        assert json.loads(body) in examples
    else:
        assert body in examples


def test_each_request_has_the_credential_of_its_operation() -> None:
    cases = {
        "read_account": ["-H", "Authorization: Bearer $TOKEN"],
        "export_logs": ["-H", "Authorization: Bearer $KEY"],
        "signal_heartbeat": ["-H", "Authorization: Bearer $MONITOR_KEY"],
        "ping_success": [],
        "sign_in": ["-c", "cookies.txt"],
        "list_own_sessions": ["-b", "cookies.txt"],
        "sign_out": ["-b", "cookies.txt", "-H", "Origin: $BASE"],
    }
    for name, expected in cases.items():
        method, path, _ = _OPERATIONS[name]
        words = _COMMANDS[method, path if path.startswith("/ping/") else f"/api{path}"]
        while words[-2] in ("-d", "-H") and not words[-1].startswith(("Authorization", "Origin")):
            words = words[:-2]
        at = next(at for at, word in enumerate(words) if word.startswith("$BASE"))
        assert words[at + 1 :] == expected, name


# Without `create_silence`: its end must be at most 90 days away.
_ACCEPTED = [
    "update_account",
    "create_project",
    "create_invitation",
    "create_token",
    "create_environment",
    "connect_repository",
    "set_workflow",
    "replace_variables",
    "update_some_variables",
    "start_deployment",
    "create_heartbeat",
    "update_heartbeat",
    "create_queue",
    "create_heartbeat_key",
    "create_environment_ping_key",
    "create_ingest_key",
    "create_site",
    "create_goal",
    "create_report_share",
    "create_notification_channel",
    "create_notification_rule",
    "create_threshold",
    "update_environment",
    "lock_environment",
]


async def test_the_application_accepts_the_bodies(api: Api) -> None:
    """Each body goes to the objects that the requests before it have created."""
    made: dict[str, Any] = {}
    for name in _ACCEPTED:
        method, path, operation = _OPERATIONS[name]
        media = operation["requestBody"]["content"]["application/json"]
        body = media["example"] if "example" in media else next(iter(media["examples"].values()))["value"]
        response = await api.call(method, re.sub(r"\{(\w+)\}", lambda found: str(made[found[1]]), path), body)
        assert 200 <= response.status < 300, (name, response.body)
        if method == "POST":
            made[path.rpartition("/")[2].rstrip("s")] = response.data.get("id")
