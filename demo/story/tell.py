"""Runs the story of the demo: sets it up, loads its past data, and continues while the platform runs."""

import asyncio
import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import aiohttp

from demo.api_client import ApiClient
from demo.ledger import Ledger
from demo.story.deployments import deploy_shop
from demo.story.exceptions import decide_exceptions
from demo.story.heartbeats import PAST_RUNS, add_heartbeats, apply_past_runs
from demo.story.live_heartbeats import ping_heartbeats
from demo.story.notifications import set_up_notifications
from demo.story.past_deployments import write_past_deployments
from demo.story.past_incidents import write_past_incidents
from demo.story.people import add_people
from demo.story.queues import add_queues, append_past_updates, post_past_snapshots, report_queues
from demo.story.releases import Timeline
from demo.story.repositories import GitFailed, make_shop_commits
from demo.story.shop_project import set_up_shop
from demo.story.workshop import set_up_workshop
from demo.traffic.jobs import Jobs
from demo.traffic.metrics import Metrics
from demo.traffic.rhythm import SLICE_SECONDS, Troubles
from demo.traffic.send import BLOCK_SECONDS, Sources, send_block, send_live_traffic
from demo.traffic.spans import Traffic
from storage_backends.monitor_states.sqlite import open_sqlite_monitor_states
from wiring.embedded.platform import Platform

logger = logging.getLogger(__name__)

_SEED = 7
_DAY_SECONDS = 86_400
_BLOCKS = "telemetry blocks"
"""Name of the part of the ledger with the number of sent blocks."""
_DECIDE_SECONDS = 2.0
_DECIDE_ATTEMPTS = 10
_SHORT_VERSION = 12
"""As long as the versions of Pharos' own deployments."""


class Story:
    """The parts of the demo. Each is created once and recorded in the ledger."""

    def __init__(
        self, platform: Platform, client: ApiClient, ledger: Ledger, data: Path, origin: str
    ) -> None:
        self._platform, self._ledger = platform, ledger
        # An absolute path, because Git runs in another folder.
        self._data, self._origin = data.absolute(), origin
        credentials = platform.credentials
        self._owner = client.with_token(credentials["api_token"])
        self._ingest = client.with_token(credentials["ingest_key"])
        self._project, self._production = credentials["project_id"], credentials["environment_id"]
        began_s = ledger.get("began")
        self._timeline = Timeline(datetime.fromtimestamp(began_s, UTC))
        self._troubles = Troubles(began_s)
        self._sources = Sources(
            Traffic(_SEED, self._troubles, self._timeline.release_times()),
            Jobs(_SEED, self._troubles),
            Metrics(_SEED, self._troubles),
            self._version_at,
        )

    async def set_up(self) -> None:
        """Create the parts that take little time: people, environments, monitors, notification settings and past
        deployments."""
        owner, ledger = self._owner, self._ledger
        await set_up_shop(owner, ledger, self._project, self._production)
        await add_people(owner, ledger, self._project)
        await self._write_past_deployments()
        await add_heartbeats(owner, ledger, self._production)
        await add_queues(owner, ledger, self._production, self._platform.credentials["queue"])
        await set_up_notifications(owner, ledger, self._project, self._production, self._origin)
        if not ledger.has("past incidents"):
            await write_past_incidents(self._platform.sessions, ledger, self._production, self._timeline)
            ledger.note("past incidents")

    async def _write_past_deployments(self) -> None:
        repository = self._platform.credentials.get("repository")
        if repository is None or self._ledger.has("past deployments"):
            return
        if not self._ledger.has("commits"):
            try:
                commits = await make_shop_commits(self._data / "repository.git", self._timeline)
            except GitFailed as error:
                logger.warning("the demo has no deployments: %s", error)
                return
            self._ledger.note("commits", commits)
        await write_past_deployments(
            self._platform.sessions,
            self._project,
            self._timeline,
            self._ledger.get("commits"),
            repository["id"],
        )
        self._ledger.note("past deployments")

    def start_live(self, session: aiohttp.ClientSession, client: ApiClient) -> Sequence[asyncio.Task[None]]:
        """Start the background tasks of the demo. `client` has no credential and does not repeat requests."""
        ingest = client.with_token(self._platform.credentials["ingest_key"])
        host = self._platform.base_url.removesuffix("/api")
        # The first start continues past traffic without a gap; later starts skip the time in which nothing ran.
        is_first = not self._ledger.has(_BLOCKS)
        since_s = self._ledger.get("began") if is_first else int(time.time())
        return [
            asyncio.create_task(send_live_traffic(ingest, self._sources, since_s)),
            asyncio.create_task(report_queues(client, self._ledger, self._troubles)),
            asyncio.create_task(ping_heartbeats(session, host, self._ledger)),
        ]

    async def deploy(self) -> None:
        """Deploy the applications of both projects."""
        if self._ledger.has("commits"):
            repository = self._platform.credentials["repository"]
            await deploy_shop(self._owner, self._ledger, self._project, self._production, repository)
            await set_up_workshop(self._owner, self._ledger, self._data, self._timeline)

    async def load_monitors(self) -> None:
        """Load past runs of heartbeats and past snapshots of queues."""
        began = self._timeline.began
        if not self._ledger.has(PAST_RUNS):
            states = await open_sqlite_monitor_states(self._data / "control.sqlite")
            try:
                await apply_past_runs(states, self._ledger, self._production, began)
            finally:
                await states.close()
            self._ledger.note(PAST_RUNS)
        if not self._ledger.has("past snapshots"):
            await post_past_snapshots(self._owner, self._ledger, self._troubles)
            self._ledger.note("past snapshots")
        if not self._ledger.has("past workers"):
            await append_past_updates(
                self._owner, self._platform.log, self._ledger, self._production, self._troubles
            )
            self._ledger.note("past workers")

    async def load_telemetry(self, days: float) -> None:
        """Send the traffic before the first start, the newest first, up to this many days in total."""
        loaded: int = self._ledger.get(_BLOCKS) or 0
        blocks_a_day = _DAY_SECONDS // BLOCK_SECONDS
        last = self._ledger.get("began") // SLICE_SECONDS * SLICE_SECONDS
        while loaded < round(days * blocks_a_day):
            begun = time.monotonic()
            await send_block(self._ingest, self._sources, last - (loaded + 1) * BLOCK_SECONDS)
            loaded += 1
            self._ledger.note(_BLOCKS, loaded)
            if loaded % blocks_a_day == 0:
                print(f"Demo data: {loaded // blocks_a_day} days of telemetry are loaded.", flush=True)
            # Requests for pages take precedence.
            await asyncio.sleep(time.monotonic() - begun)

    async def decide(self) -> None:
        """Apply the decisions about exceptions once these are stored."""
        for _ in range(_DECIDE_ATTEMPTS):
            if await decide_exceptions(self._owner, self._ledger, self._production):
                return
            await asyncio.sleep(_DECIDE_SECONDS)

    def _version_at(self, at_s: float) -> str:
        version = self._timeline.version_at(datetime.fromtimestamp(at_s, UTC))
        commits = self._ledger.get("commits")
        return version if commits is None else str(commits[version])[:_SHORT_VERSION]
