"""Small, real applications that tests deploy. Each function returns the files of one revision."""

import base64
import hashlib
import io
import json
import zipfile
from collections.abc import Mapping

from tests.support.repositories import Files

_TIMED = """\
began=$(date +%s%N)
{command} || exit
echo "this step took $(( $(date +%s%N) - began )) ns"
"""

PYTHON_WORKFLOW = """\
version: 1
build:
  steps:
    - sh build.sh
release:
  steps: [sh release.sh]
processes:
  web: {command: python3 app.py, health: {path: /healthz, timeout_seconds: 90}}
  worker: {command: python3 worker.py}
"""

NODE_WORKFLOW = """\
version: 1
build: {steps: [sh build.sh]}
processes:
  web: {command: npm start, health: {path: /healthz, timeout_seconds: 90}}
  worker: {command: node worker.js}
"""


def timed(command: str) -> str:
    """Return a script that runs the command and prints the duration."""
    return _TIMED.format(command=command)


def step_seconds(texts: list[str]) -> float:
    """Return the sum of the seconds that timed steps have printed."""
    printed = [text.split() for text in texts if text.startswith("this step took ")]
    return sum(int(words[3]) for words in printed) / 1e9


def make_wheel(name: str, module: str) -> bytes:
    """Return a pure Python wheel with one module; installing it needs neither a network nor a build tool."""
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": module,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = [f"{path},sha256={_digest(text)},{len(text.encode())}" for path, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,"]) + "\n"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return packed.getvalue()


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


_PYTHON_APP = '''\
import http.server, os, pathlib, sys, time
sys.path.insert(0, "vendor")
import greeting


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        match self.path:
            case "/" | "/healthz":
                self.answer(200, greeting.greet(os.environ.get("AUDIENCE", "nobody")))
            case "/worker":
                self.answer(200, pathlib.Path(os.environ["HOME"], "worker.txt").read_text())
            case "/events":
                self.stream()
            case _:
                self.answer(404, "the app has no such page")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(201, body[::-1])

    def stream(self):
        """Send the second event once the client has created the file `seen`."""
        seen = pathlib.Path(os.environ["HOME"], "seen")
        seen.unlink(missing_ok=True)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b"data: one\\n\\n")
        while not seen.exists():
            time.sleep(0.01)
        self.wfile.write(b"data: two\\n\\n")
        self.close_connection = True

    def answer(self, status, text):
        data = text if isinstance(text, bytes) else text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
'''

_PYTHON_WORKER = """\
import os, pathlib, time
pathlib.Path(os.environ["HOME"], "worker.txt").write_text(f"worked for {os.environ['AUDIENCE']}")
while True:
    time.sleep(60)
"""


def python_app(words: str = "Hello", workflow: str | None = PYTHON_WORKFLOW) -> Files:
    """Return a web app with a worker, whose build installs a package from the repository.

    `workflow` None: the repository has no workflow document.
    """
    greeting = f"def greet(whom):\n    return f'{words} {{whom}}'\n"
    install = "python3 -m pip install --quiet --no-index --target vendor wheels/greeting-1.0-py3-none-any.whl"
    files: dict[str, str | bytes] = {
        "app.py": _PYTHON_APP,
        "worker.py": _PYTHON_WORKER,
        "wheels/greeting-1.0-py3-none-any.whl": make_wheel("greeting", greeting),
        "build.sh": timed(install),
        "release.sh": timed('echo "prepares the database of $AUDIENCE"; test ! -w .'),
    }
    return files if workflow is None else {**files, "pharos.yaml": workflow}


_NODE_APP = """\
const crypto = require("crypto");
const fs = require("fs");
const http = require("http");
const greet = require("greeting");

const server = http.createServer((request, response) => {
  if (request.url === "/" || request.url === "/healthz") {
    response.end(greet(process.env.AUDIENCE) + " " + fs.readFileSync("dist/stamp.txt", "utf8"));
  } else if (request.url === "/worker") {
    response.end(fs.readFileSync(process.env.HOME + "/worker.txt"));
  } else if (request.method === "POST") {
    response.statusCode = 201;
    request.pipe(response);
  } else {
    response.statusCode = 404;
    response.end("the app has no such page");
  }
});

// RFC 6455, as far as short text messages and the closing need it: each message comes back in capitals.
server.on("upgrade", (request, socket, head) => {
  const key = request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  const accept = crypto.createHash("sha1").update(key).digest("base64");
  socket.write("HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n" +
    "Sec-WebSocket-Accept: " + accept + "\\r\\n\\r\\n");
  let kept = head;
  const take = (data) => {
    kept = Buffer.concat([kept, data]);
    while (kept.length >= 6 && kept.length >= 6 + (kept[1] & 127)) {
      const opcode = kept[0] & 15, size = kept[1] & 127, mask = kept.subarray(2, 6);
      const payload = Buffer.from(kept.subarray(6, 6 + size).map((byte, at) => byte ^ mask[at % 4]));
      kept = kept.subarray(6 + size);
      if (opcode === 8) {
        socket.end(Buffer.concat([Buffer.from([0x88, payload.length]), payload]));
      } else {
        const text = Buffer.from(payload.toString().toUpperCase());
        socket.write(Buffer.concat([Buffer.from([0x81, text.length]), text]));
      }
    }
  };
  socket.on("data", take);
  socket.on("error", () => socket.destroy());
});

server.listen(Number(process.env.PORT), "127.0.0.1");
"""

_NODE_WORKER = """\
require("fs").writeFileSync(process.env.HOME + "/worker.txt", "worked for " + process.env.AUDIENCE);
setInterval(() => {}, 1000);
"""


def node_app() -> Files:
    """Return a web app with a local package, npm scripts, a WebSocket and a worker, without a workflow document."""
    package = {
        "name": "shop",
        "version": "1.0.0",
        "private": True,
        "dependencies": {"greeting": "file:greeting"},
        "scripts": {"build": "mkdir -p dist && printf built > dist/stamp.txt", "start": "node server.js"},
    }
    return {
        "package.json": json.dumps(package),
        "greeting/package.json": json.dumps({"name": "greeting", "version": "1.0.0", "main": "index.js"}),
        "greeting/index.js": "module.exports = (whom) => `Hello ${whom}`;\n",
        "server.js": _NODE_APP,
        "worker.js": _NODE_WORKER,
        "build.sh": timed("npm install --offline --no-audit --no-fund && npm run build"),
    }


def shell_app(
    web: str,
    more: Mapping[str, str] | None = None,
    *,
    build: str = "true",
    build_seconds: int = 90,
    health_seconds: int = 90,
) -> dict[str, str]:
    """Return an app whose web process and build step are these shell scripts; `more` are further files."""
    workflow = (
        "version: 1\n"
        "build: {steps: [sh build.sh], timeout_seconds: %d}\n"
        "processes:\n"
        "  web: {command: sh web.sh, health: {path: /, timeout_seconds: %d}}\n"
    )
    return {
        "pharos.yaml": workflow % (build_seconds, health_seconds),
        "build.sh": build,
        "web.sh": web,
        **(more or {}),
    }


SERVE = "exec python3 -u -m http.server --bind 127.0.0.1 --directory site $PORT\n"
"""A script that serves the folder `site`."""


def page_app(text: str, build: str = "true") -> dict[str, str]:
    """Return an app that serves one page with this text."""
    return shell_app(SERVE, {"site/index.html": text}, build=build)
