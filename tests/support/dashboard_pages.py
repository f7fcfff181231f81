"""The addresses of all pages of the dashboard, filled with objects of a demo platform."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.hostile_markup import Hostile
from tests.support.platform_process import PlatformProcess

_PAGES = Path(__file__).parents[2] / "web_dashboard" / "source" / "src" / "pages"
_PATTERN = re.compile(r"pattern: '([^']+)'([^}]*)")
_PARAMETER = re.compile(r":([a-z_]+)")


@dataclass(frozen=True, slots=True)
class Pattern:
    """The address of a page, such as `/deploy/:project`."""

    text: str
    is_public: bool
    """True if the page is for people who are not signed in."""


def fill_address(text: str, values: Mapping[str, Any]) -> str:
    """Return the address with the values of its parameters."""
    return _PARAMETER.sub(lambda found: str(values[found[1]]), text)


def list_patterns() -> list[Pattern]:
    """Return the addresses of all areas, as their `routes.ts` name them."""
    found = {}
    for routes in sorted(_PAGES.glob("*/routes.ts")):
        for text, rest in _PATTERN.findall(routes.read_text(encoding="utf-8")):
            found[text] = Pattern(text, "isPublic" in rest)
    return list(found.values())


class DemoObjects:
    """Reads the objects of the demo over the API."""

    def __init__(self, platform: PlatformProcess) -> None:
        self._platform = platform
        self._headers = {"Authorization": f"Bearer {platform.credentials['api_token']}"}

    def read(self, path: str) -> Any:
        """Return the member `data` of the response to a request with the owner's token."""
        answer = self._platform.request("GET", f"/api{path}", headers=self._headers)
        assert answer.status == 200, (path, answer.json)
        return answer.json["data"]

    def _named(self, path: str, name: str, field: str = "name") -> Any:
        for each in self.read(path):
            if each[field] == name:
                return each
        raise LookupError(f"{path} lists nothing whose {field} is {name}")

    def fill_in(self) -> dict[str, Any]:
        """Return a value for each parameter of an address. Raises `LookupError` if an object is missing."""
        return {name: find() for name, find in self._lookups().items()}

    def fill_in_known(self) -> dict[str, Any]:
        """Return values for the parameters whose object exists. On a platform without a demo, only a few exist."""
        known = {}
        for name, find in self._lookups().items():
            with suppress(LookupError):
                known[name] = find()
        return known

    def _lookups(self) -> dict[str, Callable[[], Any]]:
        credentials = self._platform.credentials
        environment = credentials["environment_id"]
        inside = f"/v1/environments/{environment}"
        return {
            "project": lambda: credentials["project_id"],
            "environment": lambda: environment,
            "build": lambda: self._named(f"{inside}/deployments", "failed", "status")["id"],
            "site": lambda: credentials["site"]["id"],
            "heartbeat": lambda: self._named("/v1/monitors/heartbeats", "nightly-backup")["id"],
            "queue": lambda: self._named("/v1/monitors/queues", "images")["id"],
            "group": lambda: self._named(f"{inside}/exceptions?since=1d", "OperationalError", "type")["id"],
            "service": lambda: self._named(f"{inside}/services?since=1d", "storefront", "service")["service"],
            "trace": lambda: self.read(f"{inside}/traces?since=1d&only_errors=true&limit=1")[0]["id"],
            "incident": lambda: self.read("/v1/incidents?limit=1")[0]["id"],
        }

    def fill_in_configuration(self) -> dict[str, Any]:
        """Return values for the pages of a configuration run."""
        project = self._named("/v1/projects", "Workshop")["id"]
        run = self.read(f"/v1/projects/{project}/configuration/applications")[0]
        return {"project": project, "application": run["id"], "review": run["review_id"]}

    def fill_in_hostile(self, hostile: Hostile) -> dict[str, Any]:
        """Return values of the objects with markup in their texts."""
        inside = f"/v1/environments/{hostile.environment}"
        return {
            "project": hostile.project,
            "environment": hostile.environment,
            "site": hostile.site,
            "heartbeat": hostile.heartbeat,
            "queue": hostile.queue,
            "group": self.read(f"{inside}/exceptions?since=1d")[0]["id"],
            "trace": hostile.trace,
        }
