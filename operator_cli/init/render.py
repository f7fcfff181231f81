"""Writes a proposal as a workflow document."""

import json
import re
from collections.abc import Sequence

from operator_cli.init.proposal import Proposal

_PLAIN = re.compile(r"[A-Za-z./](?:[^:#\"'{}\[\],&*!|>%@`\\\n]*[^\s:#\"'{}\[\],&*!|>%@`\\\n])?")

_WORDS = frozenset(("true", "false", "null", ".inf", ".nan"))
"""Plain scalars of the core schema that are no text."""


def render(proposal: Proposal, branch: str) -> str:
    """Return the text of `pharos.yaml`. `branch`: a push to it deploys production."""
    lines = [f"# {proposal.kind}: how this application is built, released and run.", "version: 1"]
    lines += _steps("build", proposal.build)
    lines += _steps("release", proposal.release, "# Runs before the new release starts.")
    lines += ["", "processes:"]
    for name, command in proposal.processes.items():
        lines += [f"  {name}:", f"    command: {_scalar(command)}"]
        if name == "web" and proposal.health is not None:
            lines.append(f"    health: {{path: {_scalar(proposal.health)}}}")
    lines += ["", "triggers:", f"  push: {{{_scalar(branch)}: production}}"]
    return "\n".join(lines) + "\n"


def _steps(name: str, steps: Sequence[str], comment: str = "") -> list[str]:
    if not steps:
        return []
    return [
        "",
        *([comment] if comment else []),
        f"{name}:",
        "  steps:",
        *(f"    - {_scalar(step)}" for step in steps),
    ]


def _scalar(text: str) -> str:
    """Return the text as YAML: in double quotes where it might be anything but text."""
    is_plain = _PLAIN.fullmatch(text) is not None and text.lower() not in _WORDS
    return text if is_plain else json.dumps(text, ensure_ascii=False)
