"""Reads the bodies of the deploy API, and lists all that is wrong with them."""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import Request
from msgspec import Meta

from control_api.environments.operations import MOST_REPLICAS
from control_api.json_body import read_json_body
from pipeline_contracts.deploy_states import EnvironmentState
from pipeline_contracts.errors import FieldError, InvalidInput
from pipeline_contracts.json_members import Members, NotAnObject

_LONGEST_REF = 200
_LONGEST_NOTE = 500
# A dotenv text of 256 KiB in which JSON writes each character as \u00XX.
_MOST_VARIABLES_BYTES = 6 * 256 * 1024 + 1024
# What Git allows in the name of a branch or tag, or in a commit; never an option of its command line.
_REF = re.compile(
    r"(?![-/.]|@$)(?!.*(?:\.\.|//|/\.|@\{|\.lock(?:/|$)|[/.]$))[^\x00-\x20\x7f~^:?*\[\\]{1,200}"
)

_NOTHING_DONE = "Nothing was changed. Mend the fields below and send it again."


class _Body:
    """The members of one operation's body: each with its type, what it has to be, and whether it has to be there."""

    def __init__(self, fields: Mapping[str, tuple[Any, str, bool]]) -> None:
        self._fields = fields
        self._members = Members({name: type_ for name, (type_, _, _) in fields.items()})

    def read(self, body: bytes, is_storable: Callable[[str, Any], bool]) -> dict[str, Any]:
        """The members that were given. Raises `InvalidInput`."""
        try:
            values, bad = self._members.read(body)
        except NotAnObject as error:
            raise InvalidInput(_NOTHING_DONE, errors=[FieldError("", str(error))]) from error
        faults = []
        for name, (_, expected, is_required) in self._fields.items():
            if name in bad or (name in values and not is_storable(name, values[name])):
                faults.append(FieldError(name, expected))
            elif is_required and name not in values:
                faults.append(FieldError(name, f"is required; {expected}"))
        if faults:
            raise InvalidInput(_NOTHING_DONE, errors=faults)
        return values


_DEPLOY = _Body(
    {
        "ref": (
            str,
            f"must be a branch, tag or commit: 1 to {_LONGEST_REF} characters that Git allows in a name",
            False,
        )
    }
)
_PROMOTE = _Body(
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
_SCALE = _Body(
    {
        "replicas": (
            Annotated[int, Meta(ge=1, le=MOST_REPLICAS)],
            f"must be a whole number from 1 to {MOST_REPLICAS}",
            True,
        )
    }
)
_RUNTIME = _Body({"state": (EnvironmentState, "must be running or hibernated", True)})
_VARIABLES = _Body({"variables": (str, "must be a string of KEY=value lines", True)})


def is_ref(text: str) -> bool:
    """Whether this may name a branch, a tag or a commit."""
    return _REF.fullmatch(text) is not None


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


def _anything(_name: str, _value: Any) -> bool:
    return True
