"""Values in payloads: commits, branches and texts, in the forms that may go on to Git and into the database."""

import re
from typing import Annotated

from msgspec import Meta, Struct

from git_hosts.payloads.unusable import unusable
from git_hosts.webhook_events import Ignored
from pipeline_contracts.git_refs import LONGEST_REF, is_commit, is_ref

A_TAG = Ignored("Tags are not followed.")
NO_BRANCH = Ignored(
    f"Only branches are followed, and of them those with names that Git allows, of at most {LONGEST_REF} characters."
)
_BRANCHES, _TAGS = "refs/heads/", "refs/tags/"
LONGEST_NAME = 100
LONGEST_MESSAGE_BYTES = 64 * 1024
_LONGEST_FULL_NAME = 300
LONGEST_HOST_ID = 64
"""As the database has room for."""
_LONGEST_ADDRESS = 1000
_HOST_ID = re.compile(rf"[\x21-\x7e]{{1,{LONGEST_HOST_ID}}}")
_ADDRESS = re.compile(r"https?://[\x21-\x7e]+")
_FULL_NAME = re.compile(r"[\x21-\x7e]+/[\x21-\x7e]+")
_PART_OF_COMMIT = re.compile("[0-9a-f]{7,64}")

Number = Annotated[int, Meta(ge=1, le=2**31 - 1)]
"""Of a pull request."""
InstallationId = Annotated[int, Meta(ge=1, le=2**63 - 1)]
HostNumber = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""The ID of a repository on GitHub or GitLab."""


class Payload(Struct, gc=False):
    """Members of a JSON object; the ones without a default have to be there."""


def read_commit(text: str | None, path: str) -> str | None:
    """A whole commit; None: all zeros, which stand for none, or nothing. Raises `PayloadNotUsable`."""
    if text is None:
        return None
    if not is_commit(text):
        raise unusable(path, "must be a whole commit: 40 or 64 hexadecimal digits in small letters")
    return text if text.strip("0") else None


def read_beginning_of_commit(text: str, path: str) -> str:
    """A commit of which the end may be left out. Raises `PayloadNotUsable`."""
    if _PART_OF_COMMIT.fullmatch(text) is None:
        raise unusable(path, "must be a commit or its beginning: 7 to 64 hexadecimal digits in small letters")
    return text


class NamedRepository(Payload):
    """A repository, as GitHub and Bitbucket write it."""

    full_name: str


def read_host_id(given: int | str | None, path: str) -> str | None:
    """A host's ID of a repository as text. Raises `PayloadNotUsable`."""
    if given is None:
        return None
    if _HOST_ID.fullmatch(str(given)) is None:
        raise unusable(path, f"must be at most {LONGEST_HOST_ID} printable ASCII characters without blanks")
    return str(given)


def clean_address(text: str | None) -> str | None:
    """The address of a page; None where it cannot be one."""
    if text is None or len(text) > _LONGEST_ADDRESS or _ADDRESS.fullmatch(text) is None:
        return None
    return text


def read_full_name(text: str, path: str) -> str:
    """`owner/name`. Raises `PayloadNotUsable`."""
    if len(text) > _LONGEST_FULL_NAME or _FULL_NAME.fullmatch(text) is None:
        raise unusable(path, f"must be owner/name in at most {_LONGEST_FULL_NAME} ASCII characters")
    return text


def read_pushed_ref(ref: str) -> str | Ignored:
    """The branch that was pushed."""
    if ref.startswith(_TAGS):
        return A_TAG
    branch = ref.removeprefix(_BRANCHES)
    return branch if branch != ref and is_branch(branch) else NO_BRANCH


def is_branch(name: str) -> bool:
    """Whether a branch of this name can be followed."""
    return len(name) <= LONGEST_REF and is_ref(name)


def clean_name(text: str | None) -> str | None:
    """What can be printed of a name, cut where it gets too long; None: nothing."""
    if text is None:
        return None
    return "".join(c for c in text[: 2 * LONGEST_NAME] if c.isprintable())[:LONGEST_NAME] or None


def clean_message(text: str | None) -> str | None:
    """A commit's message as a database takes it, cut where it gets too long."""
    if text is None:
        return None
    kept = text[:LONGEST_MESSAGE_BYTES].replace("\0", "\N{REPLACEMENT CHARACTER}")
    return kept.encode()[:LONGEST_MESSAGE_BYTES].decode(errors="ignore")
