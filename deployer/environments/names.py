"""Where environments answer."""

from collections.abc import Sequence
from dataclasses import dataclass

_USUAL_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Hostnames:
    """`http://production.shop.<domain>:<port>`."""

    domain: str
    port: int

    def hosts(self, environment: str, project: str, account: str, *, has_short_name: bool) -> Sequence[str]:
        """The hosts of an environment, the one that people are told first. Slugs of projects are unique in their
        account alone: who had one first has the short name, too."""
        name = f"{environment}.{project}"
        full = f"{name}.{account}.{self.domain}"
        return [f"{name}.{self.domain}", full] if has_short_name else [full]

    def address(self, host: str) -> str:
        """The address of a host."""
        scheme = "https" if self.port == _USUAL_PORTS["https"] else "http"
        return f"{scheme}://{host}" + ("" if self.port == _USUAL_PORTS[scheme] else f":{self.port}")
