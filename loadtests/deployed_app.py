"""The application that is deployed under load: a small web application, in a repository in the data folder."""

import argparse
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from operator_cli.api.client import open_api
from operator_cli.errors import CommandFailed

_APP = """
import http.server
import os


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"under load")

    def log_message(self, *arguments):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""
_WORKFLOW = """
version: 1
build: {steps: ["python3 -m compileall -q ."]}
processes:
  web: {command: "exec python3 -S app.py", health: {path: /}}
"""


def connect_application(data: Path, credentials: Mapping[str, Any]) -> None:
    """Connect the project to the application's repository, which is created if it is missing.

    Raises `CommandFailed` if the installation is not reachable from here, and if the project is connected to another
    repository, because real projects must get no load.
    """
    repository = str(_repository((data / "load-app").absolute()))
    _connect(data, credentials["project_id"], repository)


def _repository(folder: Path) -> Path:
    if (folder / ".git").exists():
        return folder
    folder.mkdir(exist_ok=True)
    (folder / "app.py").write_text(_APP)
    (folder / "pharos.yaml").write_text(_WORKFLOW)
    author = ("-c", "user.name=Load", "-c", "user.email=load@example.com")
    for command in (
        ("init", "--quiet", "--initial-branch", "main"),
        ("add", "--all"),
        ("commit", "--quiet", "--message", "An application"),
    ):
        subprocess.run(["git", *author, *command], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder


def _connect(data: Path, project: str, repository: str) -> None:
    api = open_api(argparse.Namespace(profile=None, data=data))
    for connected in api.get_all("repositories", query={"project": project}):
        # The sample application is replaced.
        if connected["sample"]:
            continue
        if connected["url"] == repository:
            return
        raise CommandFailed(
            f"The project is deployed from {connected['url']}: the load deploys an application of its own, and needs "
            "an installation for trying out, such as `make stack`."
        )
    api.post("projects", project, "repository", body={"url": repository})
