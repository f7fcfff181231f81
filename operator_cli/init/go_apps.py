"""Recognizes Go applications by their go.mod."""

import re

from operator_cli.init.procfile import apply_procfile
from operator_cli.init.proposal import HOST, WEB, Proposal
from operator_cli.init.source_files import SourceFiles

_MAIN = re.compile(r"^package main\b", re.MULTILINE)
_PREFERRED = ("cmd/web", "cmd/server", "cmd/api", "cmd/app")


def find_go(files: SourceFiles) -> Proposal | None:
    """Return the proposal for a Go application; None if there is none."""
    if not files.has("go.mod"):
        return None
    sources = [name for name in files.list([".go"]) if not name.endswith("_test.go")]
    packages = dict.fromkeys(
        name.rpartition("/")[0] for name in sources if _MAIN.search(files.read(name)) is not None
    )
    proposal = Proposal("Go", found=["go.mod"])
    if not packages:
        proposal.hints.append(
            "No package main was found: name the one to build, and the command that starts it."
        )
        return proposal
    chosen = next((name for name in _PREFERRED if name in packages), next(iter(packages)))
    proposal.found.append(f"package main in {chosen or 'the root'}")
    proposal.build.append(f"go build -o bin/web {f'./{chosen}' if chosen else '.'}")
    proposal.processes[WEB] = "exec bin/web"
    if "cmd/worker" in packages and chosen != "cmd/worker":
        proposal.build.append("go build -o bin/worker ./cmd/worker")
        proposal.processes["worker"] = "exec bin/worker"
    proposal.health = files.find_health_path(sources[:50])
    if not any("PORT" in files.read(name) for name in sources[:50]):
        proposal.hints.append(f"No file reads PORT: make the server listen at {HOST} on this port.")
    others = [name for name in packages if name not in (chosen, "cmd/worker")]
    if others:
        proposal.hints.append(
            f"Other programs are not built: {', '.join(name or '.' for name in others[:5])}."
        )
    apply_procfile(files, proposal, "")
    return proposal
