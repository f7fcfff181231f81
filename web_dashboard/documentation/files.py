"""Finds the files of the documentation: in the repository, or in the package that was built from it."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from web_dashboard.documentation.navigation import DECISIONS, HOME

_HERE = Path(__file__).parent
_REPOSITORY = _HERE.parents[1]
# In a wheel: `pyproject.toml` copies the Markdown files there.
_PACKAGED = _HERE / "packaged"
_IMAGES = {".png": "image/png", ".svg": "image/svg+xml"}


def find_root() -> Path:
    """Return the folder with `docs/`, `decisions/` and `ARCHITECTURE.md`."""
    return _PACKAGED if _PACKAGED.is_dir() else _REPOSITORY


def list_page_files(root: Path) -> dict[str, Path]:
    """Return the Markdown file of each page below `root`, by the page's address."""
    docs, decisions = root / "docs", root / DECISIONS
    pages = {address_of(str(path.relative_to(root))): path for path in sorted(docs.rglob("*.md"))}
    if (architecture := root / "ARCHITECTURE.md").is_file():
        pages["architecture"] = architecture
    return pages | {f"{DECISIONS}/{path.stem}": path for path in sorted(decisions.glob("*.md"))}


def address_of(file: str) -> str:
    """Return the address of the page of a file whose path is relative to the root: `guides/tracker`.

    It is the address that the file would have, whether it exists or not.
    """
    if file == "README.md":
        return HOME
    if file == "ARCHITECTURE.md":
        return "architecture"
    return file.removeprefix("docs/").removesuffix(".md")


@lru_cache
def list_images() -> Mapping[str, tuple[Path, str]]:
    """Return the file and content type of each image, by its name."""
    folder = find_root() / "docs" / "images"
    return {path.name: (path, _IMAGES[path.suffix]) for path in folder.iterdir() if path.suffix in _IMAGES}


def read_text_asset(name: str) -> str:
    """Return a script, the style sheet or the template of the pages."""
    return (_HERE / "assets" / name).read_text(encoding="utf-8")
