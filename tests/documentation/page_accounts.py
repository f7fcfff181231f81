"""An account for each page, like the first account of `pharos up`, so that concurrent pages are independent."""

import json
import os
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from control_domain.first_account.account import write_private
from tests.support.platform_process import PlatformProcess


@dataclass(frozen=True, slots=True)
class PageAccount:
    """The resources of a page's commands: a folder with `.pharos` and `.venv`, and a project with this slug."""

    folder: Path
    project: str
    credentials: Mapping[str, Any]


def create_page_account(platform: PlatformProcess, folder: Path, slug: str) -> PageAccount:
    """Create an account with what `control_domain/first_account` creates, and a second project; the first one has the
    slug of the account."""
    owner = ("--owner-name", "Owner", "--owner-email", f"{slug}@localhost")
    account = _run(platform, "account", "create", slug, "--slug", slug, *owner)
    token = _run(platform, "token", "create", "--local", "--account", slug)["api_token"]
    post = _Poster(platform, token).post
    project = post("projects", {"name": "My project", "slug": slug})["id"]
    environment = post(f"projects/{project}/environments", _PRODUCTION)["id"]
    # With a second environment of the same name, a command of the page has to say which one it means.
    other = post("projects", {"name": "Other project", "slug": f"other-{slug}"})["id"]
    post(f"projects/{other}/environments", _PRODUCTION)
    heartbeat = post(f"environments/{environment}/heartbeats", _HEARTBEAT)
    queue = post(f"environments/{environment}/queues", {"name": "default"})
    site = post(f"projects/{project}/sites", {"name": "My site", "timezone": "UTC", "domains": [_ORIGIN]})
    sample = str(platform.data / "repository.git")
    repository = post(f"projects/{project}/repository", {"url": sample, "branch": "main", "kind": "github"})
    _mark_as_sample(platform.data, repository["id"])
    credentials = {
        "base_url": platform.credentials["base_url"],
        "account_id": account["id"],
        "api_token": token,
        "project_id": project,
        "environment_id": environment,
        "ingest_key": post(f"environments/{environment}/ingest-keys", None)["key"],
        "heartbeat": {"id": heartbeat["id"], "key": heartbeat["key"]["key"]},
        "queue": {"id": queue["id"], "key": queue["key"]["key"]},
        "site": {"id": site["id"], "tracker_id": site["tracker_id"], "origin": _ORIGIN},
        "repository": {"id": repository["id"], "kind": "github", "secret": repository["webhook"]["secret"]},
    }
    _link_folder(platform.data, folder, credentials)
    return PageAccount(folder, slug, credentials)


_PRODUCTION = {"name": "Production", "type": "production"}
_ORIGIN = "http://localhost:8080"
_HEARTBEAT = {"name": "first-heartbeat", "period_seconds": 86_400, "grace_seconds": 3600}


def _run(platform: PlatformProcess, *command: str) -> dict[str, Any]:
    done = platform.run(*command, "--json")
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def _link_folder(data: Path, folder: Path, credentials: Mapping[str, Any]) -> None:
    """Create a data folder with the credentials of the account. Everything else belongs to the platform."""
    own = folder / ".pharos"
    own.mkdir(parents=True)
    for entry in data.iterdir():
        if entry.name != "credentials.json":
            os.symlink(entry, own / entry.name)
    write_private(own / "credentials.json", json.dumps(credentials, indent=2) + "\n")
    os.symlink(Path(sys.executable).parents[1], folder / ".venv")


def _mark_as_sample(data: Path, repository: int) -> None:
    """Let the first repository that the page connects replace the sample. The API creates no samples."""
    with closing(sqlite3.connect(data / "control.sqlite", timeout=30)) as database, database:
        database.execute("UPDATE repositories SET is_sample = 1 WHERE id = ?", (repository,))


class _Poster:
    """Sends requests with the token of an account."""

    def __init__(self, platform: PlatformProcess, token: str) -> None:
        self._platform = platform
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def post(self, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return `data` of the response."""
        content = None if body is None else json.dumps(body).encode()
        response = self._platform.request("POST", f"/api/v1/{path}", body=content, headers=self._headers)
        assert response.status in (200, 201), (path, response)
        data: dict[str, Any] = response.json["data"]
        return data
