"""The built files of the pages, as `npm run build` in `source/` writes them."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

_BUILT = Path(__file__).parent / "built"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".woff2": "font/woff2"}

PAGE = "index.html"
"""The document that every page begins with."""
ICON = "icon.svg"


@lru_cache
def list_assets() -> Mapping[str, str]:
    """Return the content type of each asset, by its name. The names contain a digest of the content."""
    return MappingProxyType(
        {path.name: _TYPES[path.suffix] for path in (_BUILT / "assets").iterdir() if path.suffix in _TYPES}
    )


def read_asset(name: str) -> bytes:
    """Return the content of an asset that `list_assets` names."""
    return (_BUILT / "assets" / name).read_bytes()


def read_page() -> bytes:
    """Return the document that every page begins with."""
    return (_BUILT / PAGE).read_bytes()


def read_icon() -> bytes:
    """Return the icon of the browser's tab, as SVG."""
    return (_BUILT / ICON).read_bytes()
