"""An application is deployed with the unchanged files of `pharos init`, and responds."""

import shutil
from pathlib import Path

import pytest

from tests.support.installation import Installation
from tests.support.repositories import Repository

_PYTHON = """\
import http.server, os


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path in ("/", "/healthz") else 404)
        self.end_headers()
        self.wfile.write(b"hello from python")


http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""
_NODE = """\
require("http")
  .createServer((request, response) => {
    response.statusCode = ["/", "/healthz"].includes(request.url) ? 200 : 404;
    response.end("hello from node");
  })
  .listen(process.env.PORT, "127.0.0.1");
"""
_LOCK = '{"name": "shop", "lockfileVersion": 3, "packages": {"": {"name": "shop"}}}'
_GO = """\
package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	http.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {})
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello from go") })
	panic(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
}
"""
_SAMPLES = {
    "static": ({"public/index.html": "hello from static"}, "python3", "/"),
    "python": ({"app.py": _PYTHON}, "python3", "/healthz"),
    "node": (
        {
            "package.json": '{"name": "shop", "scripts": {"start": "node server.js"}}',
            "package-lock.json": _LOCK,
            "server.js": _NODE,
        },
        "npm",
        "/healthz",
    ),
    "go": ({"go.mod": "module shop\n\ngo 1.20\n", "main.go": _GO}, "go", "/healthz"),
}


@pytest.mark.parametrize(
    # Compiling Go's library takes most of a minute. `test_an_application_is_recognized` covers the proposed workflow.
    "name",
    [pytest.param(name, marks=pytest.mark.full if name == "go" else ()) for name in _SAMPLES],
)
def test_a_recognized_application_is_deployed(name: str, installation: Installation, tmp_path: Path) -> None:
    files, tool, health = _SAMPLES[name]
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    folder = tmp_path / name
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    done = installation.platform.run("init", str(folder), "--yes", data=False)
    assert done.returncode == 0, done.stderr
    workflow = (folder / "pharos.yaml").read_text()
    assert f"health: {{path: {health}}}" in workflow
    repository = Repository(tmp_path / "app.git")
    repository.commit({**files, "pharos.yaml": workflow})
    app = installation.create_app(f"Init {name}", repository)
    app.deploy_live()
    assert app.get() == (200, f"hello from {name}")
