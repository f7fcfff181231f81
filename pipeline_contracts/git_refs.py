"""Names of branches and tags, and commits, before they are handed to Git."""

import re

LONGEST_REF = 200
# Characters that Git allows in the name of a branch or tag, or in a commit. No match can be an option of Git's command
# line.
REF = re.compile(r"(?![-/.]|@$)(?!.*(?:\.\.|//|/\.|@\{|\.lock(?:/|$)|[/.]$))[^\x00-\x20\x7f~^:?*\[\\]{1,200}")
_COMMIT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")


def is_commit(text: str) -> bool:
    """Return True for a full commit ID in lower case."""
    return _COMMIT.fullmatch(text) is not None


def is_ref(text: str) -> bool:
    """Return True for a valid name of a branch, a tag or a commit."""
    return REF.fullmatch(text) is not None
