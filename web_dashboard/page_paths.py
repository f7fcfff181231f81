"""The addresses of the pages. The script of the pages decides what each shows."""

PAGE_SEGMENTS = (
    "sign-in",
    "join",
    "start",
    "deploy",
    "deployments",
    "monitoring",
    "jobs",
    "analytics",
    "notifications",
    "configuration",
    "settings",
    "share",
)
"""The first segments of the addresses, beside `/` itself.

The files `source/src/pages/*/routes.ts` have the pages below them.
"""
