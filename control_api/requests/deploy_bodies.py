"""Reads the request bodies of the deploy API, and lists every invalid field."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Request
from msgspec import Meta

from control_api.requests.json_body import JsonFields, read_json_body
from control_domain.documents.strict_yaml import MAX_CHARACTERS
from control_domain.environments.operations import MAX_REPLICAS
from pipeline_contracts.deploy_states import EnvironmentState
from pipeline_contracts.git_refs import LONGEST_REF, is_ref

_MAX_NOTE_CHARACTERS = 500
# A dotenv text of 256 KiB in which JSON writes each character as \u00XX.
_MAX_VARIABLES_BYTES = 6 * 256 * 1024 + 1024
# The longest document, if all characters are beyond U+FFFF, which JSON writes as two \uXXXX. With the margin, a
# document that is slightly too long is refused as a document, with its rule, and not as a body.
_MAX_DOCUMENT_BYTES = 12 * MAX_CHARACTERS + 64 * 1024


def _fields(fields: Mapping[str, tuple[Any, str, bool]]) -> JsonFields:
    return JsonFields(fields, "Nothing was changed. Fix the fields listed below and send the request again.")


_DEPLOY = _fields(
    {
        "ref": (
            str,
            f"must be a branch, tag or commit: 1 to {LONGEST_REF} characters that Git allows in a name",
            False,
        )
    }
)
_PROMOTE = _fields(
    {
        "target_environment_id": (
            Annotated[str, Meta(min_length=1, max_length=40)],
            "must be an environment's ID",
            True,
        ),
        "promotion_note": (
            Annotated[str, Meta(max_length=_MAX_NOTE_CHARACTERS)],
            f"must be a string of at most {_MAX_NOTE_CHARACTERS} characters",
            False,
        ),
    }
)
_SCALE = _fields(
    {
        "replicas": (
            Annotated[int, Meta(ge=1, le=MAX_REPLICAS)],
            f"must be a whole number from 1 to {MAX_REPLICAS}",
            True,
        )
    }
)
_RUNTIME = _fields({"state": (EnvironmentState, "must be running or hibernated", True)})
_VARIABLES = _fields({"variables": (str, "must be a string of KEY=value lines", True)})
# The document and its bindings of 256 KiB, in which JSON writes each character as \u00XX.
_MAX_CONFIGURATION_BYTES = _MAX_DOCUMENT_BYTES + _MAX_VARIABLES_BYTES
_CONFIGURATION = _fields(
    {
        "document": (str, "must be a string of YAML", True),
        "bindings": (dict[str, Any], "must be an object of strings", True),
    }
)
_WORKFLOW = _fields({"workflow": (str, "must be a string of YAML", True)})


async def read_deploy(request: Request) -> tuple[bytes, str | None]:
    """Return the raw body, for the idempotency key, and the `ref`, None for the default branch. The body is optional.
    Raises `InvalidInput`, like all functions of this module."""
    if not await _has_body(request):
        return b"", None
    body = await read_json_body(request)
    return body, _DEPLOY.read(body, lambda _, ref: is_ref(ref)).get("ref")


async def _has_body(request: Request) -> bool:
    headers = request.headers
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


async def read_promote(request: Request) -> tuple[bytes, str, str | None]:
    """Return the raw body, the ID of the target environment, and the note."""
    body = await read_json_body(request)
    # Postgres cannot store NUL in a text.
    values = _PROMOTE.read(body, lambda _, text: "\0" not in text)
    return body, values["target_environment_id"], values.get("promotion_note")


async def read_scale(request: Request) -> int:
    replicas: int = _SCALE.read(await read_json_body(request))["replicas"]
    return replicas


async def read_runtime(request: Request) -> EnvironmentState:
    state: EnvironmentState = _RUNTIME.read(await read_json_body(request))["state"]
    return state


async def read_variables(request: Request) -> str:
    """Return the variables as dotenv text."""
    text: str = _VARIABLES.read(await read_json_body(request, _MAX_VARIABLES_BYTES))["variables"]
    return text


async def read_configuration_request(request: Request) -> tuple[bytes, str, dict[str, Any]]:
    """Return the raw body, the configuration document as YAML, and its bindings, whose values are not checked."""
    body = await read_json_body(request, _MAX_CONFIGURATION_BYTES)
    values = _CONFIGURATION.read(body)
    return body, values["document"], values["bindings"]


async def read_workflow_text(request: Request) -> str:
    """Return the workflow document as YAML."""
    text: str = _WORKFLOW.read(await read_json_body(request, _MAX_DOCUMENT_BYTES))["workflow"]
    return text
