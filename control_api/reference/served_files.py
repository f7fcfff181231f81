"""The document and the files of its page as they are sent: compressed once, with a digest of what they hold."""

import gzip
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import orjson

from control_api.reference.load_document import load_document

_PAGE = Path(__file__).parent / "page"
_TYPES = {
    "index.html": "text/html",
    "start.js": "text/javascript",
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
}
_DIGEST_CHARACTERS = 20


@dataclass(frozen=True, slots=True)
class ServedFile:
    """One file, compressed for browsers. The first request without gzip support decompresses the file once for all."""

    content_type: str
    gzipped: bytes
    digest: str
    """Of the plain bytes, for the ETag."""

    def plain(self) -> bytes:
        """Return the decompressed bytes: one object for all callers, so that slow downloads share them."""
        return _decompress(self.gzipped)


# All served files: only a handful.
@lru_cache
def _decompress(gzipped: bytes) -> bytes:
    return gzip.decompress(gzipped)


@lru_cache
def document_file() -> ServedFile:
    """The OpenAPI document as JSON."""
    return pack_file("application/json", orjson.dumps(load_document()))


@lru_cache
def page_file(name: str) -> ServedFile | None:
    """A file of the page; None for a name that is none."""
    content_type = _TYPES.get(name)
    if content_type is None:
        return None
    source = _PAGE / "source" / name
    if source.exists():
        return pack_file(content_type, source.read_bytes())
    packed = (_PAGE / "built" / f"{name}.gz").read_bytes()
    return _served(content_type, gzip.decompress(packed), packed)


def pack_file(content_type: str, plain: bytes) -> ServedFile:
    """A file of these bytes."""
    return _served(content_type, plain, gzip.compress(plain, mtime=0))


def _served(content_type: str, plain: bytes, gzipped: bytes) -> ServedFile:
    return ServedFile(content_type, gzipped, hashlib.sha256(plain).hexdigest()[:_DIGEST_CHARACTERS])
