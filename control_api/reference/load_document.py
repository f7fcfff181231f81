"""Builds the OpenAPI document: the typed operations from their code, all others from the YAML files in this folder."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from control_api.management.all_operations import ROUTERS
from control_api.operations.document import describe_operations
from control_domain.accounts.roles import SCOPES

PARTS = (
    "document",
    "account",
    "projects",
    "deployments",
    "environments",
    "variables",
    "workflows",
    "configuration",
    "schemas",
    "monitoring_ingest",
    "otlp",
    "otlp_schemas",
    "monitors",
    "pings",
    "analytics",
    "collect",
    "webhooks",
)
"""The files, in the order of the document and of the page."""
EXAMPLES = "request_examples"
"""The file with the bodies of typed operations, by the operation's ID."""

_SIGN_IN = ("apiToken", "session")
"""The security schemes that operations with a scope accept."""
_FOLDER = Path(__file__).parent
# libyaml is ten times as fast, but not available on every platform.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@lru_cache
def load_document() -> dict[str, Any]:
    """Return the whole document, which callers must not change. The first call takes 50 ms.

    Raises `ValueError` if two files define the same value.
    """
    document: dict[str, Any] = {}
    for name in PARTS:
        text = (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
        _merge(document, yaml.load(text, _Loader), name)
    generated = describe_operations(operation for router in ROUTERS for operation in router.operations)
    schemas = generated["components"]["schemas"]
    # A schema that is written by hand replaces the generated schema of the same name.
    for name in schemas.keys() & document["components"]["schemas"].keys():
        del schemas[name]
    _merge(document, generated, "operations")
    _add_examples(document)
    for path in document["paths"].values():
        for operation in path.values():
            if isinstance(operation, dict) and (scope := operation.get("x-required-scope")):
                # Only tokens have scopes: a session may do everything.
                operation["security"] = [{scheme: [scope]} for scheme in _SIGN_IN]
    token = document["components"]["securitySchemes"]["apiToken"]
    token["description"] = token["description"].replace(
        "{scopes}", ", ".join(f"`{scope}`" for scope in SCOPES)
    )
    return document


def _add_examples(document: dict[str, Any]) -> None:
    examples: dict[str, Any] = yaml.load((_FOLDER / f"{EXAMPLES}.yaml").read_text(encoding="utf-8"), _Loader)
    for path in document["paths"].values():
        for operation in path.values():
            if isinstance(operation, dict) and operation.get("operationId") in examples:
                content = operation["requestBody"]["content"]["application/json"]
                _merge(content, {"example": examples.pop(operation["operationId"])}, operation["operationId"])
    if examples:
        raise ValueError(f"{EXAMPLES}: no operation is called {', '.join(examples)}.")


def _merge(into: dict[str, Any], part: dict[str, Any], where: str) -> None:
    for name, value in part.items():
        here = f"{where}: {name}"
        if name not in into:
            into[name] = value
        elif isinstance(value, dict) and isinstance(into[name], dict):
            _merge(into[name], value, here)
        else:
            raise ValueError(f"{here} is defined twice.")
