"""Files that need no credential: compressed once, with ETags. One of them is the OpenAPI document."""

import gzip
import hashlib
from dataclasses import dataclass
from functools import lru_cache

import orjson
from fastapi import Request, Response

from control_api.reference.load_document import load_document

_DIGEST_CHARACTERS = 20
REVALIDATE = "no-cache"
"""`Cache-Control` for files that browsers revalidate each time: 304 while the file is unchanged."""

_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""The Content-Security-Policy of files that are not pages."""


@dataclass(frozen=True, slots=True)
class ServedFile:
    """One file, compressed for browsers. The first request without gzip support decompresses the file once for all."""

    content_type: str
    gzipped: bytes
    digest: str
    """Digest of the plain bytes, for the ETag."""

    def plain(self) -> bytes:
        """Return the decompressed bytes: one object for all callers, so that slow downloads share them."""
        return _decompress(self.gzipped)


@lru_cache
def _decompress(gzipped: bytes) -> bytes:
    return gzip.decompress(gzipped)


@lru_cache
def document_file() -> ServedFile:
    """Return the OpenAPI document as JSON."""
    return pack_file("application/json", orjson.dumps(load_document()))


def pack_file(content_type: str, plain: bytes) -> ServedFile:
    """Compress a file."""
    digest = hashlib.sha256(plain).hexdigest()[:_DIGEST_CHARACTERS]
    return ServedFile(content_type, gzip.compress(plain, mtime=0), digest)


def file_response(request: Request, file: ServedFile, headers: dict[str, str]) -> Response:
    """Return the file, or 304 if the client has it. `headers` are added; a `Content-Security-Policy` among them
    replaces the default one, which allows nothing."""
    use_gzip = _accepts_gzip(request.headers.get("accept-encoding", ""))
    # Each content coding needs its own ETag (RFC 9110, 8.8.3.3).
    etag = f'"{file.digest}{"-gzip" if use_gzip else ""}"'
    headers = {
        "ETag": etag,
        "Vary": "Accept-Encoding",
        "Content-Security-Policy": _POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        **headers,
    }
    known_etags = request.headers.get("if-none-match", "")
    if known_etags.strip() == "*" or etag in [
        tag.strip().removeprefix("W/") for tag in known_etags.split(",")
    ]:
        return Response(status_code=304, headers=headers)
    if use_gzip:
        headers["Content-Encoding"] = "gzip"
    return Response(file.gzipped if use_gzip else file.plain(), headers=headers, media_type=file.content_type)


def _accepts_gzip(accepted: str) -> bool:
    for part in accepted.lower().split(","):
        coding, _, weight = part.partition(";")
        if coding.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
