"""The tag that a site's pages load the tracker with."""

from pathlib import Path

from operator_cli.credentials import base_url_of


def tracker_tag(data: Path, tracker_id: str) -> str:
    """The tag to paste; the tracker comes from the installation whose credentials are in this folder."""
    host = base_url_of(data).removesuffix("/api")
    return f'<script defer src="{host}/tracker/v1.js" data-site="{tracker_id}"></script>'
