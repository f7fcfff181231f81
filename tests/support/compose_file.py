"""Reads docker-compose.yml as Docker does, without Docker."""

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


def read_compose() -> dict[str, Any]:
    """Return the document with anchors and merges resolved and variables not replaced."""
    document: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return document


def needed_variables(text: str) -> set[str]:
    """Return the variables without which Compose refuses to start."""
    return {name for name, kind, _ in _VARIABLE.findall(text) if kind == "?"}


def interpolate(text: str, values: dict[str, str]) -> str:
    """Return the text with its variables replaced. Variables that `values` lacks get their defaults."""
    return _VARIABLE.sub(lambda m: values.get(m[1], m[3] if m[2] == "-" else ""), text)


def own_services() -> dict[str, dict[str, Any]]:
    """Return the services that run `pharos`."""
    return {
        name: service
        for name, service in read_compose()["services"].items()
        if str(service.get("image", "")).startswith("pharos:")
    }
