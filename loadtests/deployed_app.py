"""The application that is deployed under load: a small web application in a repository in the data folder."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from operator_actions.door import ACTIONS
from operator_cli.control_client import request_socket
from operator_cli.errors import CommandFailed
from pipeline_contracts.settings import Settings
from wiring.processes.operator_engines import operator_engines

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
_Act = Callable[[str, dict[str, Any]], Awaitable[Any]]


def connect_application(data: Path, credentials: Mapping[str, Any]) -> None:
    """Connect the project to the application's repository, which is created if it is missing.

    Raises `CommandFailed` if the installation is not reachable from here, and if the project is connected to another
    repository: real projects get no load.
    """
    repository = str(_repository((data / "load-app").absolute()))
    asyncio.run(_connect(data, credentials, repository))


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


async def _connect(data: Path, credentials: Mapping[str, Any], repository: str) -> None:
    async with _operator(data, credentials) as act:
        for connected in await act("repositories/list", {}):
            # Replace the sample application.
            if connected["project"]["id"] != credentials["project_id"] or connected["sample"]:
                continue
            if connected["url"] == repository:
                return
            raise CommandFailed(
                f"The project is deployed from {connected['url']}: the load deploys an application of its own, and "
                "needs an installation for trying out, such as `make stack`."
            )
        await act("repositories/connect", {"url": repository, "project_id": credentials["project_id"]})


@asynccontextmanager
async def _operator(data: Path, credentials: Mapping[str, Any]) -> AsyncIterator[_Act]:
    """Sends operator requests as the command line does, without a process for each."""
    if "database_url" not in credentials:

        async def run_action(name: str, params: dict[str, Any]) -> Any:
            return json.loads(await request_socket(data, "POST", f"/actions/{name}", body=json.dumps(params)))

        yield run_action
        return
    settings = Settings(database_url=credentials["database_url"], redis_url=credentials["redis_url"])
    async with operator_engines(settings) as engines:
        yield lambda name, params: ACTIONS[name](engines, params, datetime.now(UTC))
