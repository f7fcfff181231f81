"""`ETag` and `If-Match`: the version of settings that several people may change."""

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import Request

from pipeline_contracts.errors import PreconditionFailed

_DIGEST_CHARACTERS = 32


def make_etag(settings: Mapping[str, Any]) -> str:
    """Return the entity tag of settings: the same for equal settings."""
    content = orjson.dumps(settings, option=orjson.OPT_SORT_KEYS)
    return f'"{hashlib.sha256(content).hexdigest()[:_DIGEST_CHARACTERS]}"'


def check_if_match(request: Request, settings: Mapping[str, Any]) -> None:
    """Raise `PreconditionFailed` if the request has an `If-Match` that does not name these settings."""
    if (tags := _read_tags(request)) is None:
        return
    etag = make_etag(settings)
    # Weak tags never match (RFC 9110, 13.1.1).
    if etag not in tags:
        raise PreconditionFailed(
            "The settings have changed since you read them. Read them again, and repeat the change with the new ETag.",
            headers={"ETag": etag},
        )


def refuse_if_match(request: Request) -> None:
    """Raise `PreconditionFailed` if the request has an `If-Match` that names a version, because its object has no
    version."""
    if _read_tags(request) is not None:
        raise PreconditionFailed(
            "Nothing was done: the object of this operation has no ETag, so none can match. Remove the header If-Match."
        )


def _read_tags(request: Request) -> list[str] | None:
    """Return the tags in `If-Match`; None if the header allows every version."""
    header = ",".join(request.headers.getlist("if-match")).strip()
    return None if header in ("", "*") else [tag.strip() for tag in header.split(",")]
