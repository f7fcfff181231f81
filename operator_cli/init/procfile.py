"""Reads a Procfile, in which the application says itself what it runs."""

import re

from operator_cli.init.proposal import Proposal
from operator_cli.init.source_files import SourceFiles

_LINE = re.compile(r"([A-Za-z0-9_-]+)\s*:\s*(\S.*)")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,29}")


def read_procfile(files: SourceFiles) -> dict[str, str]:
    """Return the commands of the Procfile by process name, `release` among them; empty without a Procfile."""
    lines = (_LINE.fullmatch(line.strip()) for line in files.read("Procfile").splitlines())
    return {match[1].lower().replace("_", "-"): match[2].strip() for match in lines if match is not None}


def apply_procfile(files: SourceFiles, proposal: Proposal, prefix: str) -> None:
    """Replace the proposed processes and release steps by those of the Procfile. `prefix`: assignments of variables in
    front of each command."""
    commands = read_procfile(files)
    if not commands:
        return
    proposal.found.append("Procfile: " + ", ".join(commands))
    release = commands.pop("release", None)
    if release is not None:
        proposal.release = [f"{prefix}{release}"]
    for name in [name for name in commands if _NAME.fullmatch(name) is None]:
        del commands[name]
        proposal.hints.append(
            f"The process {name} of the Procfile is left out: a name has a-z, 0-9 and hyphens."
        )
    if commands:
        proposal.processes = {name: f"{prefix}{command}" for name, command in commands.items()}
    if "web" in commands and "PORT" not in commands["web"]:
        proposal.hints.append("The web process of the Procfile does not use $PORT: make it listen there.")
