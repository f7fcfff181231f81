"""JSON objects of answers."""

import json
from typing import Any, NoReturn

from operator_cli.errors import CommandFailed


class MissingMember(CommandFailed, LookupError):
    """An answer lacks a member that this version reads."""


class AnswerObject(dict[str, Any]):
    """A JSON object of an answer. Reading a member that it does not have raises `MissingMember`."""

    def __missing__(self, name: str) -> NoReturn:
        raise MissingMember(
            f"The installation answered without {name!r}: it runs another version of Pharos. Install the command line "
            "of its version."
        )


def parse_answer(content: bytes | str) -> Any:
    """Return the JSON value with its objects as `AnswerObject`. Raises `ValueError`."""
    return json.loads(content, object_hook=AnswerObject)
