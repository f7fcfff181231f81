"""A configuration of eleven steps of all kinds, the expected results, and engines that can be unavailable."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.engine import Sessions
from control_domain.database.errors import DatabaseUnavailable
from control_domain.tables.configuration import RunStep
from control_domain.tables.sites import Site
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from storage_backends.key_directory.interface import KeyEntry
from tests.support.reviewed_project import ReviewedProject, statuses

SECRET = "hunter2 hunter2 hunter2"
BINDINGS = {"token": SECRET}
# Resources of every kind. The sites, the removed keys and the names of heartbeats must be published.
BEFORE = """\
environments:
  old: {type: development, heartbeats: {job: {period: 1h}}}
  staging: {variables: {A: "1"}, heartbeats: {nightly: {period: 1h}}}
sites:
  old: {domains: ["https://old.example"]}
"""
DOCUMENT = """\
project: {name: The blog}
environments:
  development: {replicas: 2, state: hibernated, locked: true}
  staging:
    name: Test
    variables: {A: "2", TOKEN: "${token}"}
    heartbeats: {nightly: {period: 2h}, other: {cron: "0 3 * * *"}}
    queues: {default: {}}
  new: {type: staging, order: 4, variables: {TOKEN: "${token}"}, queues: {default: {}}}
sites:
  docs: {domains: ["https://docs.example"], goals: [{name: Signup, path: /welcome}]}
delete: [environments.old, sites.old]
"""
COUNT = 11
# In the audit log.
EFFECTS = [
    "project.set",
    "environment.scale",
    "environment.state",
    "environment.lock",
    "variables.update",
    "environment.set",
    "heartbeat.set",
    "heartbeat.create",
    "queue.create",
    "environment.create",
    "variables.update",
    "queue.create",
    "site.create",
    "site.remove",
    "environment.remove",
]


class Directory(InProcessKeyDirectory):
    """A key directory that can be unavailable."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = False

    async def publish(self, entry: KeyEntry) -> None:
        self._check()
        await super().publish(entry)

    async def revoke(self, digest: bytes) -> None:
        self._check()
        await super().revoke(digest)

    def _check(self) -> None:
        if self.is_away:
            raise StorageUnavailable("The key directory does not answer now.")


class Database:
    """Opens sessions, or fails like an unavailable database, `away` times."""

    # Of no known engine: every poll is due.
    kw: Mapping[str, Any] = {}

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self.away: float = 0

    def __call__(self) -> AsyncSession:
        if self.away > 0:
            self.away -= 1
            raise DatabaseUnavailable("The database does not answer now.")
        return self._sessions()


async def effects(begun: ReviewedProject) -> list[str]:
    """Return the audited actions since the document was applied."""
    actions = [action for action, _ in await begun.audited()]
    last = max(place for place, action in enumerate(actions) if action == "configuration.apply")
    return [action for action in actions[last:] if not action.startswith("configuration.")]


async def check_done(begun: ReviewedProject, result: Any) -> None:
    """Check that each step is applied once and that a new plan of the document is empty."""
    assert statuses(result) == ["succeeded"] * COUNT, result
    assert result["status"] == "succeeded"
    assert sorted(await effects(begun)) == sorted(EFFECTS)
    rows = await begun.rows(RunStep, RunStep.run_id == result["id"])
    assert {(row.sealed, row.key_id, row.publications) for row in rows} == {(None, None, None)}
    again = DOCUMENT.partition("delete:")[0]
    plan = (await begun.ask("plan", again, BINDINGS)).data
    assert plan["actions"] == []
    assert "environments.old" not in plan["unmanaged"]
    sites = {site.name: site.public_id for site in await begun.rows(Site)}
    assert "old" not in sites
    assert await begun.directory.find(digest_credential(sites["docs"])) is not None
