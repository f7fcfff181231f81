"""Names of branches and tags, and commits, before they are handed to Git."""

import re

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
