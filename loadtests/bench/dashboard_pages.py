"""Lists the dashboard's pages whose data grows, and the API requests that each page sends when it is opened."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

_RANGES = ("1h", "24h", "30d")
_LISTS = "names=sources,pages,countries,devices&limit=9"


@dataclass(frozen=True, slots=True)
class DashboardPage:
    """A page, and the paths below `/api/v1/` that it reads. The page is drawn once all responses have arrived."""

    name: str
    paths: Sequence[str]


@dataclass(frozen=True, slots=True)
class Shown:
    """The IDs and names of the objects that the pages show."""

    project: str
    environment: str
    site: int
    trace: str
    group: str

    def range(self, name: str) -> str:
        """Return the query parameters of a time range, as the pages send them."""
        return f"since={name}"


def dashboard_pages(shown: Shown) -> list[DashboardPage]:
    """Return the pages. A page with a time range is listed with the shortest, the default and the longest
    range."""
    return [
        *_overview(),
        *_analytics(shown),
        *(page for name in _RANGES for page in _monitoring(shown, name)),
        DashboardPage(
            "monitoring: trace",
            ["projects?limit=100", f"environments/{shown.environment}/traces/{shown.trace}"],
        ),
        *_others(shown),
    ]


def _overview() -> list[DashboardPage]:
    return [
        DashboardPage(
            f"overview, {since}",
            ["overview", f"overview/timeline?since={since}&buckets=96", "getting-started"],
        )
        for since in ("24h", "7d", "30d")
    ]


def _analytics(shown: Shown) -> list[DashboardPage]:
    site, project = f"analytics/sites/{shown.site}", shown.project
    google = f"&filters={quote(json.dumps([['is', 'source', ['Google']]]))}"
    pages = [DashboardPage("analytics: sites", ["analytics/sites", "analytics/activity"])]
    for days in (30, 90):
        for filtered, filters in {"": "", ", filtered": google}.items():
            period = f"days={days}{filters}"
            pages.append(
                DashboardPage(
                    f"analytics: report, {days}d{filtered}",
                    [
                        site,
                        f"{site}/current-visitors",
                        f"{site}/lists?{period}&{_LISTS}",
                        f"{site}/conversions?{period}",
                        f"{site}/page-speed?{period}",
                        f"{site}/figures?{period}&compare=previous",
                        f"projects/{project}/deployment-markers?{shown.range('30d')}",
                    ],
                )
            )
    return pages


def _monitoring(shown: Shown, name: str) -> list[DashboardPage]:
    environment, within = f"environments/{shown.environment}", shown.range(name)
    projects, markers = "projects?limit=100", f"{environment}/deployment-markers?{within}"
    group = f"{environment}/exceptions/{shown.group}"
    pages: Mapping[str, Sequence[str]] = {
        "services": [
            f"{environment}/routes?{within}&sort=time&limit=10",
            f"{environment}/queries?{within}&sort=time&limit=10",
            projects,
            f"{environment}/services?{within}&limit=50&steps=30",
        ],
        "service": [
            f"{environment}/routes?{within}&service=api-3&sort=time&limit=10",
            f"{environment}/queries?{within}&service=api-3&sort=time&limit=10",
            projects,
            f"{environment}/services/api-3/series?{within}",
            markers,
        ],
        "exceptions": [projects, f"{environment}/exceptions?{within}&limit=25&steps=24&status=open"],
        "exception": [
            projects,
            f"{group}?{within}",
            f"{group}/series?{within}",
            f"{group}/events?{within}&limit=20",
            markers,
            "people?limit=100",
        ],
        "traces": [projects, f"{environment}/traces?{within}&limit=50"],
        "logs": [
            projects,
            f"{environment}/logs?{within}&limit=100",
            f"{environment}/logs/histogram?{within}",
            markers,
        ],
        "metrics": [
            projects,
            f"{environment}/metrics?{within}&limit=50",
            f"{environment}/metrics/metric.7/series?{within}",
            markers,
        ],
    }
    return [DashboardPage(f"monitoring: {each}, {name}", paths) for each, paths in pages.items()]


def _others(shown: Shown) -> list[DashboardPage]:
    return [
        DashboardPage("start", ["getting-started"]),
        DashboardPage(
            "jobs: heartbeats", ["projects?limit=100", "monitors/heartbeats?limit=100&recent_runs=30"]
        ),
        DashboardPage("jobs: queues", ["projects?limit=100", "monitors/queues?limit=100&trend=3h"]),
        DashboardPage(
            "deploy",
            ["projects", "environments?limit=100", "repositories?limit=100", "approvals?limit=100"],
        ),
        DashboardPage(
            "deploy: environment",
            [
                f"environments?project={shown.project}&limit=100",
                f"environments/{shown.environment}/processes",
                f"environments/{shown.environment}/deployments?limit=20",
            ],
        ),
        DashboardPage(
            "notifications: incidents",
            ["alert-kinds", "incidents?limit=50&state=firing", "incidents?limit=30"],
        ),
        DashboardPage("settings: storage", ["storage"]),
        DashboardPage("settings: usage", ["usage?days=30"]),
        DashboardPage("settings: audit", ["people?limit=100", "audit?limit=50"]),
    ]
