"""JSON objects in responses."""

import json
from typing import Any, NoReturn

from operator_cli.errors import CommandFailed


class MissingMember(CommandFailed, LookupError):
    """A response lacks a member that this version reads."""


class AnswerObject(dict[str, Any]):
    """A JSON object in a response. Reading a missing member raises `MissingMember`."""

    def __missing__(self, name: str) -> NoReturn:
        raise MissingMember(
            f"The installation answered without {name!r}: it runs another version of Pharos. Install the command line "
            "of its version."
        )


def parse_answer(content: bytes | str) -> Any:
    """Return the JSON value with its objects as `AnswerObject`. Raises `ValueError`."""
    return json.loads(content, object_hook=AnswerObject)
