"""Texts of configuration documents: the contract's example, and documents with one kind of resource each."""

CONTRACT = """\
version: 2
project: {name: Shop}
environments:
  production:
    type: production
    order: 3
    branch: main
    replicas: 2
    state: running
    locked: false
    window: {days: [mon, tue, wed, thu], from: "09:00", to: "16:00", timezone: Europe/Oslo}
    approval: {deploys: true, variables: true}
    variables: {APP_ENV: production, DATABASE_URL: "${production_database}"}
    heartbeats: {nightly-backup: {cron: "0 3 * * *", timezone: UTC, grace: 30m, max_runtime: 2h}}
    queues: {default: {}}
sites:
  www: {domains: ["https://shop.example"], timezone: Europe/Oslo, goals: [{name: Purchase, event: purchase}, {name: Signup, path: /welcome}]}
"""  # noqa: E501


def environment(*lines: str) -> str:
    """Return a document with an environment `a` whose settings begin on line 4."""
    return "version: 2\nenvironments:\n  a:\n" + "".join(f"    {line}\n" for line in lines)


def site(*lines: str) -> str:
    """Return a document with a site `s` whose settings begin on line 4."""
    return "version: 2\nsites:\n  s:\n" + "".join(f"    {line}\n" for line in lines)


def heartbeats(*lines: str) -> str:
    """Return a document with heartbeats of an environment `a`, which begin on line 5."""
    return environment("heartbeats:", *(f"  {line}" for line in lines))


def variables(*lines: str) -> str:
    return environment("variables:", *(f"  {line}" for line in lines))


def goals(*lines: str) -> str:
    return site("goals:", *(f"  - {line}" for line in lines))


def domains(*lines: str) -> str:
    return site("domains:", *(f"  - {line}" for line in lines))


def deleted(*lines: str) -> str:
    """Return a document that deletes these addresses, which begin on line 3."""
    return "version: 2\ndelete:\n" + "".join(f"  - {line}\n" for line in lines)
