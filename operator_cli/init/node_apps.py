"""Recognizes Node applications by their package.json."""

import json
from collections.abc import Mapping
from typing import Any

from operator_cli.init.procfile import apply_procfile
from operator_cli.init.proposal import HOST, WEB, Proposal
from operator_cli.init.source_files import SourceFiles
from operator_cli.init.static_sites import serve_folder

_INSTALLS = {
    "pnpm-lock.yaml": ("pnpm", "pnpm install --frozen-lockfile"),
    "yarn.lock": ("yarn", "yarn install --frozen-lockfile"),
    "bun.lock": ("bun", "bun install --frozen-lockfile"),
    "bun.lockb": ("bun", "bun install --frozen-lockfile"),
    "package-lock.json": ("npm", "npm ci"),
    "npm-shrinkwrap.json": ("npm", "npm ci"),
}
_SERVERS = ("express", "fastify", "koa", "@nestjs/core", "hono", "@hapi/hapi")
_MAINS = (
    "server.js",
    "index.js",
    "app.js",
    "main.js",
    "server.mjs",
    "index.mjs",
    "src/index.js",
    "src/server.js",
)


def find_node(files: SourceFiles) -> Proposal | None:
    """Return the proposal for a Node application; None if there is none."""
    if not files.has("package.json"):
        return None
    package = _read_package(files)
    scripts, needs = (
        _texts(package, "scripts"),
        _texts(package, "dependencies") | _texts(package, "devDependencies"),
    )
    proposal = Proposal("Node", found=["package.json"])
    manager = _add_install(files, proposal, needs)
    if "prisma" in needs and files.has("prisma/migrations"):
        proposal.release.append("npx prisma migrate deploy")
        proposal.found.append("prisma/migrations")
    if "next" in needs:
        _describe_next(proposal, manager, scripts)
    elif _is_vite_site(needs, scripts):
        _describe_vite(proposal, manager)
    else:
        _describe_server(files, proposal, manager, package, scripts, needs)
    if "worker" in scripts and WEB in proposal.processes:
        proposal.processes["worker"] = f"exec {manager} run worker"
    apply_procfile(files, proposal, "PATH=node_modules/.bin:$PATH ")
    return proposal


def _read_package(files: SourceFiles) -> Mapping[str, Any]:
    try:
        package = json.loads(files.read("package.json"))
    except (ValueError, RecursionError):
        return {}
    return package if isinstance(package, dict) else {}


def _texts(package: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return the members of an object that are text."""
    members = package.get(name)
    if not isinstance(members, dict):
        return {}
    return {key: value for key, value in members.items() if isinstance(value, str)}


def _add_install(files: SourceFiles, proposal: Proposal, needs: Mapping[str, str]) -> str:
    """Add the step that installs dependencies, and return the package manager."""
    for lock, (manager, install) in _INSTALLS.items():
        if files.has(lock):
            proposal.found.append(lock)
            proposal.build.append(install)
            if manager != "npm":
                proposal.hints.append(f"The build needs {manager} on the machine that deploys.")
            return manager
    if needs:
        proposal.build.append("npm install")
        proposal.hints.append(
            "Without a lock file each build may get other versions: commit package-lock.json."
        )
    return "npm"


def _describe_next(proposal: Proposal, manager: str, scripts: Mapping[str, str]) -> None:
    proposal.kind = "Next.js"
    proposal.build.append(f"{manager} run build" if "build" in scripts else "node_modules/.bin/next build")
    proposal.processes[WEB] = f"exec node_modules/.bin/next start --hostname {HOST} --port $PORT"
    proposal.health = "/"


def _is_vite_site(needs: Mapping[str, str], scripts: Mapping[str, str]) -> bool:
    return "vite" in needs and "start" not in scripts and not any(name in needs for name in _SERVERS)


def _describe_vite(proposal: Proposal, manager: str) -> None:
    proposal.kind = "Vite"
    proposal.build.append(f"{manager} run build")
    proposal.processes[WEB] = serve_folder("dist")
    proposal.health = "/"
    proposal.hints.append("The folder dist is served as files: paths of a client-side router return 404.")


def _describe_server(
    files: SourceFiles,
    proposal: Proposal,
    manager: str,
    package: Mapping[str, Any],
    scripts: Mapping[str, str],
    needs: Mapping[str, str],
) -> None:
    framework = next((name for name in _SERVERS if name in needs), None)
    if framework is not None:
        proposal.found.append(framework)
        proposal.kind = {"express": "Express"}.get(framework, "Node")
    if "build" in scripts:
        proposal.build.append(f"{manager} run build")
    main = package.get("main")
    program = main if isinstance(main, str) and files.has(main) else next(filter(files.has, _MAINS), None)
    if "start" in scripts:
        proposal.processes[WEB] = f"exec {manager} start"
    elif program is not None:
        proposal.processes[WEB] = f"exec node {program}"
        proposal.found.append(program)
    else:
        proposal.hints.append('package.json has no script "start": add the one that starts the server.')
        return
    sources = files.list([".js", ".mjs", ".cjs", ".ts"])[:50]
    proposal.health = files.find_health_path(sources)
    if not any("PORT" in files.read(name) for name in sources) and "PORT" not in scripts.get("start", ""):
        proposal.hints.append("No file reads PORT: make the server listen on process.env.PORT.")
