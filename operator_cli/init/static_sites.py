"""Recognizes folders of static files."""

from operator_cli.init.proposal import HOST, WEB, Proposal
from operator_cli.init.source_files import SourceFiles

_FOLDERS = ("public", "site", "www", "htdocs", "dist", "build", "_site")


def find_static(files: SourceFiles) -> Proposal | None:
    """Return the proposal for a static site; None if there is no index.html."""
    if files.has("index.html"):
        folder = "."
    else:
        folder = next((name for name in _FOLDERS if files.has(f"{name}/index.html")), "")
    if not folder:
        return None
    page = "index.html" if folder == "." else f"{folder}/index.html"
    return Proposal("static site", found=[page], processes={WEB: serve_folder(folder)}, health="/")


def serve_folder(folder: str) -> str:
    """Return the command that serves the files of a folder."""
    return f"exec python3 -m http.server --bind {HOST} --directory {folder} $PORT"
