"""Reads the bodies of the deploy API, and lists all that is wrong with them."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Request
from msgspec import Meta

from control_api.requests.json_body import read_json_body
from control_api.requests.json_fields import JsonFields
from control_domain.documents.strict_yaml import MAX_CHARACTERS
from control_domain.environments.operations import MOST_REPLICAS
from pipeline_contracts.deploy_states import EnvironmentState
from pipeline_contracts.git_refs import LONGEST_REF, is_ref

_LONGEST_NOTE = 500
# A dotenv text of 256 KiB in which JSON writes each character as \u00XX.
_MOST_VARIABLES_BYTES = 6 * 256 * 1024 + 1024
# The longest document, of characters beyond U+FFFF, which JSON writes as two of \uXXXX. What is a little longer is
# refused as a text that is too long, not as a body.
_MOST_DOCUMENT_BYTES = 12 * MAX_CHARACTERS + 64 * 1024


def _fields(fields: Mapping[str, tuple[Any, str, bool]]) -> JsonFields:
    return JsonFields(fields, "Nothing was changed. Mend the fields below and send it again.")


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
            Annotated[str, Meta(max_length=_LONGEST_NOTE)],
            f"must be a string of at most {_LONGEST_NOTE} characters",
            False,
        ),
    }
)
_SCALE = _fields(
    {
        "replicas": (
            Annotated[int, Meta(ge=1, le=MOST_REPLICAS)],
            f"must be a whole number from 1 to {MOST_REPLICAS}",
            True,
        )
    }
)
_RUNTIME = _fields({"state": (EnvironmentState, "must be running or hibernated", True)})
_VARIABLES = _fields({"variables": (str, "must be a string of KEY=value lines", True)})
# The document's bindings in it: 256 KiB, in which JSON writes each character as \u00XX.
_MOST_CONFIGURATION_BYTES = _MOST_DOCUMENT_BYTES + _MOST_VARIABLES_BYTES
_CONFIGURATION = _fields(
    {
        "document": (str, "must be a string of YAML", True),
        "bindings": (dict[str, Any], "must be an object of strings", True),
    }
)
_WORKFLOW = _fields({"workflow": (str, "must be a string of YAML", True)})


async def read_deploy(request: Request) -> tuple[bytes, str | None]:
    """The body as it came, for telling a repeat, and the `ref`; None: the branch that is set. The body may be left
    out. Raises `InvalidInput`, as all of these do."""
    if not await _has_body(request):
        return b"", None
    body = await read_json_body(request)
    return body, _DEPLOY.read(body, lambda _, ref: is_ref(ref)).get("ref")


async def _has_body(request: Request) -> bool:
    headers = request.headers
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


async def read_promote(request: Request) -> tuple[bytes, str, str | None]:
    """The body as it came, the target's ID, and the note."""
    body = await read_json_body(request)
    # Postgres keeps no NUL in a text.
    values = _PROMOTE.read(body, lambda _, text: "\0" not in text)
    return body, values["target_environment_id"], values.get("promotion_note")


async def read_scale(request: Request) -> int:
    """The number of replicas."""
    replicas: int = _SCALE.read(await read_json_body(request), _anything)["replicas"]
    return replicas


async def read_runtime(request: Request) -> EnvironmentState:
    """The state that is wanted."""
    state: EnvironmentState = _RUNTIME.read(await read_json_body(request), _anything)["state"]
    return state


async def read_variables(request: Request) -> str:
    """The variables as dotenv text."""
    text: str = _VARIABLES.read(await read_json_body(request, _MOST_VARIABLES_BYTES), _anything)["variables"]
    return text


async def read_configuration_wish(request: Request) -> tuple[bytes, str, dict[str, Any]]:
    """The body as it came, the configuration document as YAML, of any length that the body may have, and its
    bindings, of any kind."""
    body = await read_json_body(request, _MOST_CONFIGURATION_BYTES)
    values = _CONFIGURATION.read(body, _anything)
    return body, values["document"], values["bindings"]


async def read_workflow_text(request: Request) -> str:
    """The workflow document as YAML, of any length that the body may have."""
    text: str = _WORKFLOW.read(await read_json_body(request, _MOST_DOCUMENT_BYTES), _anything)["workflow"]
    return text


def _anything(_name: str, _value: Any) -> bool:
    return True
