"""Values in payloads: checks and cleans commits, branches and texts before they reach Git and the database."""

import re
from typing import Annotated

from msgspec import Meta, Struct

from git_hosts.webhook_events import Ignored
from pipeline_contracts.errors import FieldError, PayloadNotUsable
from pipeline_contracts.git_refs import LONGEST_REF, is_commit, is_ref

IGNORED_TAG = Ignored("Tags are not followed.")
IGNORED_REF = Ignored(
    f"Pharos follows only branches whose names Git allows and have at most {LONGEST_REF} characters."
)
_BRANCHES, _TAGS = "refs/heads/", "refs/tags/"
MAX_NAME_LENGTH = 100
MAX_MESSAGE_BYTES = 64 * 1024
_MAX_FULL_NAME_LENGTH = 300
MAX_HOST_ID_LENGTH = 64
"""The size of the database column."""
_MAX_URL_LENGTH = 1000
_HOST_ID = re.compile(rf"[\x21-\x7e]{{1,{MAX_HOST_ID_LENGTH}}}")
_URL = re.compile(r"https?://[\x21-\x7e]+")
_FULL_NAME = re.compile(r"[\x21-\x7e]+/[\x21-\x7e]+")
_COMMIT_PREFIX = re.compile("[0-9a-f]{7,64}")

PullRequestNumber = Annotated[int, Meta(ge=1, le=2**31 - 1)]
InstallationNumber = Annotated[int, Meta(ge=1, le=2**63 - 1)]
NumericRepositoryId = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""The ID of a repository on GitHub or GitLab."""


class Payload(Struct, gc=False):
    """A JSON object. Members without a default are required."""


def payload_error(
    field: str, message: str, advice: str = "Send what the Git host sends for this event."
) -> PayloadNotUsable:
    """Return the error for an invalid delivery. `field` is a header, a path in the body (`push.changes[0].new.name`)
    or `body`."""
    return PayloadNotUsable(f"{field} {message}. {advice}", errors=[FieldError(field, message)])


def read_commit(text: str | None, path: str) -> str | None:
    """Return the full commit ID; None for all zeros, which mean no commit. Raises `PayloadNotUsable`."""
    if text is None:
        return None
    if not is_commit(text):
        raise payload_error(path, "must be a whole commit: 40 or 64 hexadecimal digits in small letters")
    return text if text.strip("0") else None


def read_commit_prefix(text: str, path: str) -> str:
    """Check a full or abbreviated commit ID. Raises `PayloadNotUsable`."""
    if _COMMIT_PREFIX.fullmatch(text) is None:
        raise payload_error(
            path, "must be a commit or its beginning: 7 to 64 hexadecimal digits in small letters"
        )
    return text


class RepositoryPayload(Payload):
    """The common part of repositories in payloads of GitHub and Bitbucket."""

    full_name: str


def read_host_id(value: int | str | None, path: str) -> str | None:
    """Return the host's ID of a repository as text. Raises `PayloadNotUsable`."""
    if value is None:
        return None
    if _HOST_ID.fullmatch(str(value)) is None:
        raise payload_error(
            path, f"must be at most {MAX_HOST_ID_LENGTH} printable ASCII characters without blanks"
        )
    return str(value)


def clean_url(text: str | None) -> str | None:
    """Return the URL of a page; None if the text is not one."""
    if text is None or len(text) > _MAX_URL_LENGTH or _URL.fullmatch(text) is None:
        return None
    return text


def read_full_name(text: str, path: str) -> str:
    """Check a name of the form `owner/name`. Raises `PayloadNotUsable`."""
    if len(text) > _MAX_FULL_NAME_LENGTH or _FULL_NAME.fullmatch(text) is None:
        raise payload_error(path, f"must be owner/name in at most {_MAX_FULL_NAME_LENGTH} ASCII characters")
    return text


def read_pushed_branch(ref: str) -> str | Ignored:
    """Return the branch that was pushed, or the reason why the push is ignored."""
    if ref.startswith(_TAGS):
        return IGNORED_TAG
    branch = ref.removeprefix(_BRANCHES)
    return branch if branch != ref and is_branch(branch) else IGNORED_REF


def is_branch(name: str) -> bool:
    """Return True if pushes to a branch of this name can be deployed."""
    return len(name) <= LONGEST_REF and is_ref(name)


def clean_name(text: str | None) -> str | None:
    """Return the printable characters of a name, truncated; None if there are none."""
    if text is None:
        return None
    return "".join(c for c in text[: 2 * MAX_NAME_LENGTH] if c.isprintable())[:MAX_NAME_LENGTH] or None


def clean_message(text: str | None) -> str | None:
    """Return a commit's message without NUL, truncated, as the database stores it."""
    if text is None:
        return None
    message = text[:MAX_MESSAGE_BYTES].replace("\0", "\N{REPLACEMENT CHARACTER}")
    return message.encode()[:MAX_MESSAGE_BYTES].decode(errors="ignore")
