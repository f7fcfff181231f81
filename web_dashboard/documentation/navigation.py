"""The sections of the documentation and their pages, in the order in which the pages show them."""

from typing import Final, NamedTuple


class Section(NamedTuple):
    """A section of the navigation. `pages` are addresses: `guides/tracker` is the file `docs/guides/tracker.md`."""

    title: str
    pages: tuple[str, ...]


HOME: Final = "index"
"""The page at `/docs`."""
DECISIONS: Final = "decisions"
"""The generated page that lists `decisions/`."""

SECTIONS: Final = (
    Section("Start", (HOME, "quick-start")),
    Section(
        "Concepts",
        (
            "concepts/events-and-receipts",
            "concepts/environments-and-deployments",
            "concepts/heartbeats-and-queues",
            "concepts/visits",
            "concepts/incidents-and-notifications",
        ),
    ),
    Section(
        "Deploy",
        (
            "guides/deploy-django",
            "guides/deploy-rails",
            "guides/deploy-node",
            "guides/deploy-go",
            "guides/deploy-static",
            "guides/configuration-as-code",
            "guides/webhooks-github",
            "guides/webhooks-gitlab",
            "guides/webhooks-bitbucket",
            "guides/webhooks-other",
        ),
    ),
    Section(
        "Observe",
        (
            "guides/opentelemetry",
            "guides/python",
            "guides/javascript",
            "guides/sentry",
            "guides/grafana",
            "guides/hyperdx",
        ),
    ),
    Section("Jobs", ("guides/ping-urls", "guides/queues")),
    Section("Visitors", ("guides/tracker", "guides/tracker-spa")),
    Section(
        "Reference",
        (
            "reference/cli",
            "reference/command-line",
            "reference/settings",
            "reference/metrics",
            "reference/configuration",
            "reference/applications",
            "reference/deploy",
            "reference/webhooks",
            "reference/monitors",
            "reference/notifications",
            "reference/analytics",
            "reference/dashboard",
            "glossary",
        ),
    ),
    Section(
        "API",
        (
            "reference/api",
            "reference/management-api",
            "reference/errors",
            "reference/http",
            "reference/http/account",
            "reference/http/overview",
            "reference/http/sign-in",
            "reference/http/projects",
            "reference/http/deploy",
            "reference/http/monitoring",
            "reference/http/telemetry",
            "reference/http/analytics",
            "reference/http/notifications",
            "reference/http/webhooks",
        ),
    ),
    Section(
        "Operations",
        (
            "operations/operation",
            "operations/sign-in",
            "operations/backups",
            "operations/scaling",
            "operations/performance",
            "security",
        ),
    ),
    Section("Inside", ("architecture", "design", DECISIONS, "testing")),
)
"""Pages that do not exist are left out. The pages `reference/http/…` are written from the OpenAPI document."""
