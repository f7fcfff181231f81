"""Names of branches and tags, and commits, before they are handed to Git."""

import re
from typing import Any

from control_api.refusals import Refused

LONGEST_REF = 200
# What Git allows in the name of a branch or tag, or in a commit; never an option of its command line.
REF = re.compile(r"(?![-/.]|@$)(?!.*(?:\.\.|//|/\.|@\{|\.lock(?:/|$)|[/.]$))[^\x00-\x20\x7f~^:?*\[\\]{1,200}")
_COMMIT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")


def is_commit(text: str) -> bool:
    """Whether this is a whole commit, in small letters."""
    return _COMMIT.fullmatch(text) is not None


def is_ref(text: str) -> bool:
    """Whether this may name a branch, a tag or a commit."""
    return REF.fullmatch(text) is not None


def read_branch(given: Any) -> str:
    """The branch that an operator names. Raises `Refused`."""
    branch = str(given or "")
    if not is_ref(branch):
        raise Refused(f"{branch!r} is no name of a branch that Git allows; one is main.")
    return branch


def choose_ref(wished: str | None, of_environment: str | None, of_repository: str) -> str:
    """Return what a deployment is of: the ref that was asked for, else the branch of its environment, else that of its
    repository."""
    return wished or of_environment or of_repository
