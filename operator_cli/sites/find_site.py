"""Finds the site named by an argument."""

from collections import Counter
from typing import Any

from operator_cli.api.choose import choose
from operator_cli.api.client import Api
from operator_cli.api.names import Row
from operator_cli.api.problems import ApiRefused
from operator_cli.errors import NOT_FOUND


def list_site(api: Api, name: str | None) -> Row:
    """Return the row of the site with this ID, tracker ID or name; the only one for None. Raises `CommandFailed`."""
    rows = api.list_once("analytics", "sites")
    count = Counter(row["name"] for row in rows)

    def label(site: Row) -> str:
        # Names are unique in a project only.
        if count[site["name"]] == 1:
            return str(site["name"])
        return f"{site['id']} ({site['name']} of {site['project']['slug']})"

    return choose(
        rows,
        name,
        noun="site",
        keys=lambda site: [str(site[key]) for key in ("id", "tracker_id", "name")],
        label=label,
    )


def find_site(api: Api, name: str | None) -> Row:
    """Return the ID and the settings of the site that `list_site` would find.

    A site that is named by its ID is found even while the column store, which the list of sites needs, does not
    answer.
    """
    if name is not None and name.isdecimal():
        try:
            site: dict[str, Any] = api.get("analytics", "sites", name)
            return site
        except ApiRefused as error:
            if error.exit_status != NOT_FOUND:
                raise
    return list_site(api, name)


def tracker_tag(api: Api, site: Row) -> str:
    """Return the script tag that loads the tracker, for the head of the site's pages."""
    host = api.target.base_url.removesuffix("/api")
    return f'<script defer src="{host}/tracker/v1.js" data-site="{site["tracker_id"]}"></script>'
