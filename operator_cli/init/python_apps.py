"""Recognizes Python applications: Django, Flask, FastAPI, and programs without a framework."""

import re

from operator_cli.init.procfile import apply_procfile, read_procfile
from operator_cli.init.proposal import HOST, WEB, Proposal
from operator_cli.init.source_files import SourceFiles

_VENDOR = "PYTHONPATH=vendor "
_PIP = "python3 -m pip install --disable-pip-version-check -t vendor"
_SETTINGS = re.compile(r"""DJANGO_SETTINGS_MODULE["'],\s*["']([\w.]+)["']""")
_APP = re.compile(r"^(\w+)(?:\s*:\s*\w+)?\s*=\s*(?:\w+\.)?(Flask|FastAPI|Starlette|Quart)\(", re.MULTILINE)
_FACTORY = re.compile(r"^def (create_app|make_app)\(", re.MULTILINE)
_ROOT_ROUTE = re.compile(r"""@\w+\.(?:route|get)\(\s*["']/["']""")
_DOCSTRING = re.compile(r'""".*?"""', re.DOTALL)
_DJANGO_ROOT = re.compile(r"""\bpath\(\s*["']["']\s*,""")
_DJANGO_ADMIN = re.compile(r"""\bpath\(\s*["']admin/["']\s*,""")
_PROGRAMS = ("app.py", "main.py", "server.py", "run.py", "web.py")
_MARKS = ("requirements.txt", "pyproject.toml", "Pipfile", "setup.py", "manage.py")


def find_python(files: SourceFiles) -> Proposal | None:
    """Return the proposal for a Python application; None if there is none."""
    if not files.has(*_MARKS) and not any(files.has(name) for name in _PROGRAMS):
        return None
    needs = _read_requirements(files)
    proposal = _find_django(files, needs) or _find_framework(files, needs) or _find_program(files)
    if proposal is None:
        return None
    prefix = _add_dependencies(files, proposal)
    apply_procfile(files, proposal, f"{prefix}PATH=vendor/bin:$PATH " if prefix else "")
    if not prefix:
        _remove_prefix(proposal)
    return proposal


def _read_requirements(files: SourceFiles) -> str:
    names = (
        "requirements.txt",
        "requirements/base.txt",
        "requirements/production.txt",
        "pyproject.toml",
        "Pipfile",
    )
    return "\n".join(files.read(name) for name in names).lower()


def _add_dependencies(files: SourceFiles, proposal: Proposal) -> str:
    """Add the build steps that install dependencies, and return the prefix of commands that use them."""
    if files.has("requirements.txt"):
        proposal.found.append("requirements.txt")
        proposal.build.insert(0, f"{_PIP} -r requirements.txt")
    elif files.has("uv.lock"):
        proposal.found.append("uv.lock")
        export = "uv export --frozen --no-dev --no-emit-project -o /tmp/requirements.txt"
        proposal.build[:0] = [f"{export} && {_PIP} -r /tmp/requirements.txt"]
        proposal.hints.append("The build needs uv on the machine that deploys.")
    elif files.has("poetry.lock", "Pipfile.lock"):
        tool = "poetry export -o" if files.has("poetry.lock") else "pipenv requirements >"
        proposal.hints.append(
            f"Dependencies are not installed: add a requirements.txt (`{tool} requirements.txt`) and run init again."
        )
        return ""
    elif "[project]" in files.read("pyproject.toml"):
        proposal.found.append("pyproject.toml")
        proposal.build.insert(0, f"{_PIP} .")
    else:
        return ""
    return _VENDOR


def _remove_prefix(proposal: Proposal) -> None:
    for commands in (proposal.build, proposal.release):
        commands[:] = [command.removeprefix(_VENDOR) for command in commands]
    proposal.processes = {name: command.removeprefix(_VENDOR) for name, command in proposal.processes.items()}


def _find_django(files: SourceFiles, needs: str) -> Proposal | None:
    if not files.has("manage.py"):
        return None
    match = _SETTINGS.search(files.read("manage.py"))
    module = match[1] if match is not None else None
    package = module.split(".")[0] if module is not None else "config"
    proposal = Proposal("Django", found=[f"manage.py with the settings {module or 'in an unknown module'}"])
    if module is None:
        proposal.hints.append(
            f"manage.py names no settings module: replace {package} by that of your project."
        )
    settings = files.read(f"{module.replace('.', '/')}.py") if module is not None else ""
    settings += files.read(f"{package}/settings/base.py")
    if "STATIC_ROOT" in settings:
        proposal.build.append(f"{_VENDOR}python3 manage.py collectstatic --noinput")
    proposal.release.append(f"{_VENDOR}python3 manage.py migrate --noinput")
    if "gunicorn" in needs:
        server = f"gunicorn --bind {HOST}:$PORT {package}.wsgi"
    elif "uvicorn" in needs:
        server = f"uvicorn --host {HOST} --port $PORT {package}.asgi:application"
    else:
        server = None
    if server is not None:
        proposal.processes[WEB] = f"{_VENDOR}exec python3 -m {server}"
    else:
        proposal.processes[WEB] = f"{_VENDOR}exec python3 manage.py runserver {HOST}:$PORT --noreload"
        proposal.hints.append(
            "Django's development server runs: add gunicorn to requirements.txt and run init again with --force."
        )
    if "celery" in needs and files.has(f"{package}/celery.py"):
        proposal.processes["worker"] = f"{_VENDOR}exec python3 -m celery -A {package} worker"
    _check_django_settings(files, proposal, settings, package)
    return proposal


def _check_django_settings(files: SourceFiles, proposal: Proposal, settings: str, package: str) -> None:
    # A new project has examples of routes in a docstring.
    urls = _DOCSTRING.sub("", files.read(f"{package}/urls.py"))
    proposal.health = files.find_health_path([f"{package}/urls.py"])
    if proposal.health is None and _DJANGO_ROOT.search(urls):
        proposal.health = "/"
    elif proposal.health is None and _DJANGO_ADMIN.search(urls):
        proposal.health = "/admin/login/"
    elif proposal.health is None:
        proposal.hints.append(
            "No health path was found: add a view that returns 200, and name it under health."
        )
    if "sqlite3" in settings and "BASE_DIR" in settings and "home" not in settings.lower():
        proposal.hints.append(
            'SQLite needs a writable folder: set the NAME of the database to Path.home() / "db.sqlite3".'
        )


def _find_framework(files: SourceFiles, needs: str) -> Proposal | None:
    sources = files.list([".py"])
    for name in sources:
        text = files.read(name)
        match = _APP.search(text)
        factory = None if match is not None else _FACTORY.search(text)
        if match is None and (factory is None or "flask" not in text.lower()):
            continue
        kind = match[2] if match is not None else "Flask"
        module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        variable = match[1] if match is not None else f"{factory[1] if factory else 'create_app'}()"
        proposal = Proposal(kind, found=[f"{variable} in {name}"])
        proposal.processes[WEB] = (
            f"{_VENDOR}exec python3 -m {_choose_server(proposal, needs, kind, module, variable)}"
        )
        proposal.health = files.find_health_path(sources[:50])
        if proposal.health is None and any(_ROOT_ROUTE.search(files.read(each)) for each in sources[:50]):
            proposal.health = "/"
        if proposal.health is None:
            proposal.hints.append(
                "No health path was found: add a route that returns 200, and name it under health."
            )
        if "alembic" in needs and files.has("alembic.ini"):
            proposal.release.append(f"{_VENDOR}python3 -m alembic upgrade head")
        elif "flask-migrate" in needs and files.has("migrations"):
            proposal.release.append(f"{_VENDOR}python3 -m flask --app {module} db upgrade")
        return proposal
    return None


def _choose_server(proposal: Proposal, needs: str, kind: str, module: str, variable: str) -> str:
    if kind in ("FastAPI", "Starlette", "Quart"):
        if not any(name in needs for name in ("uvicorn", "fastapi[")):
            proposal.hints.append("The web process needs uvicorn: add it to the dependencies.")
        return f"uvicorn --host {HOST} --port $PORT {module}:{variable}"
    if "gunicorn" in needs:
        return f"gunicorn --bind {HOST}:$PORT '{module}:{variable}'"
    proposal.hints.append(
        "Flask's development server runs: add gunicorn to the dependencies and run init again with --force."
    )
    return f"flask --app '{module}:{variable}' run --host {HOST} --port $PORT"


def _find_program(files: SourceFiles) -> Proposal | None:
    program = next((name for name in _PROGRAMS if files.has(name)), None)
    if program is None:
        if not read_procfile(files):
            return None
        return Proposal("Python")
    text = files.read(program)
    proposal = Proposal("Python", found=[program], processes={WEB: f"{_VENDOR}exec python3 {program}"})
    proposal.health = files.find_health_path([program])
    if "PORT" not in text:
        proposal.hints.append(f"{program} does not read PORT: make it listen at {HOST} on this port.")
    if files.has("worker.py"):
        proposal.processes["worker"] = f"{_VENDOR}exec python3 worker.py"
        proposal.found.append("worker.py")
    return proposal
