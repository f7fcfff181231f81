"""The inputs of a report: events as browsers sent them, the site, and the filters."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Sent:
    """One event of a collect body, with the properties of its request that the edge knows.

    `received_ms` is in milliseconds since 1970 (UTC); `country` two upper-case letters or None; `event` has `id`
    (lower-case uuid), `type` (pageview or event) and `path`, and may have `occurred_at` (RFC 3339), `referrer_host`,
    `utm_source`, `utm_medium`, `utm_campaign`, `device`, `browser`, `os`, `visitor`, `session`, `properties` (dict).
    """

    received_ms: int
    address: str
    user_agent: str
    country: str | None
    event: dict[str, Any]


@dataclass(frozen=True)
class Goal:
    """A goal: an event's name, or the path of a page view."""

    id: int
    name: str
    event: str | None
    path: str | None


@dataclass(frozen=True)
class Site:
    """A site; `hosts` are its own hosts, lower-case and without `www.`."""

    id: int
    name: str
    timezone: str
    hosts: frozenset[str]
    goals: tuple[Goal, ...]


@dataclass(frozen=True)
class Filters:
    """The filters of a report; None keeps all visits."""

    path: str | None = None
    source: str | None = None
    campaign: str | None = None
    device: str | None = None
    country: str | None = None
