"""Assembles the background workers of a control plane."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from control_domain.database.engine import Sessions
from control_domain.notifications.signed_links import IncidentLinks
from control_domain.sealing import SealingKeys
from control_workers.alert_scan.run_periodically import running_alert_scan
from control_workers.alert_scan.scan import AlertScan
from control_workers.apply_retention import apply_retention_periodically
from control_workers.commit_statuses.report_periodically import running_status_reports
from control_workers.configuration_runs import ConfigurationRunWorker, running_configuration_worker
from control_workers.created_heartbeats import publish_created_heartbeats_periodically
from control_workers.forget_idempotency_keys import forget_keys_periodically
from control_workers.forget_sessions import forget_sessions_periodically
from control_workers.forget_workers import forget_workers_periodically
from control_workers.full_accounts import republish_full_accounts_periodically
from control_workers.publish_keys import PublicationAge, publish_keys_periodically
from control_workers.refresh_daily_rollups import refresh_rollups_periodically
from control_workers.waiting_pushes import WaitingPushWorker, running_push_worker
from notifications.assemble import running_notifications
from notifications.channels.outbound_http.resolver import Endpoint
from pipeline_contracts.settings import Settings
from storage_backends.column_store.interface import ColumnStore
from storage_backends.end_task import end_task
from storage_backends.key_directory.interface import KeyDirectory


class ControlWorkers:
    """All background workers of one control plane. Several control planes may share a database."""

    def __init__(
        self,
        settings: Settings,
        sessions: Sessions,
        directory: KeyDirectory,
        store: ColumnStore,
        sealing_keys: SealingKeys,
        links: IncidentLinks,
        data_folder: Path | None = None,
    ) -> None:
        """`store`: the column store, which the alert scan reads and the rollup worker writes. `links`: makes the
        links in messages. `data_folder`: the data folder of the embedded platform; None if the engines are
        servers."""
        self._settings = settings
        self._sessions = sessions
        self._directory = directory
        self._store = store
        self._sealing_keys = sealing_keys
        self._links = links
        self.publication_age = PublicationAge()
        self.alert_scan = AlertScan(sessions, store, data_folder)
        self.private_endpoints: set[Endpoint] = set()
        """Private addresses that channels may reach."""
        self._retention_changed = asyncio.Event()
        self._data_folder = data_folder
        self._configuration_runs = ConfigurationRunWorker(sessions, directory, sealing_keys)

    def wake_configuration_runs(self) -> None:
        """Start a configuration run that was just committed, without waiting for the next poll."""
        self._configuration_runs.wake()

    def wake_retention(self) -> None:
        """Apply a retention setting that was just committed, without waiting for the next poll."""
        self._retention_changed.set()

    @asynccontextmanager
    async def running(self, *, is_alone: bool) -> AsyncIterator[None]:
        """Run the workers; at exit, wait for the steps in progress. Raises `BadSettings`.

        `is_alone`: True if no other control plane uses the database and the key directory. Leases of an earlier
        process are then released at once, and the keys need not be published repeatedly.
        """
        stop = asyncio.Event()
        async with AsyncExitStack() as stack:
            if not is_alone:
                publishing = publish_keys_periodically(
                    self._sessions, self._directory, stop, age=self.publication_age
                )
                stack.push_async_callback(_finish, stop, asyncio.create_task(publishing, name="publish keys"))
            for name, loop in (
                ("daily rollups", refresh_rollups_periodically(self._sessions, self._store, stop)),
                ("idempotency keys", forget_keys_periodically(self._sessions, stop)),
                ("old sessions", forget_sessions_periodically(self._sessions, stop)),
                ("old workers", forget_workers_periodically(self._sessions, stop)),
                ("retention", self._apply_retention(stop)),
                (
                    "created heartbeats",
                    publish_created_heartbeats_periodically(self._sessions, self._directory, stop),
                ),
                (
                    "full accounts",
                    republish_full_accounts_periodically(self._sessions, self._directory, stop),
                ),
            ):
                stack.push_async_callback(end_task, asyncio.create_task(loop, name=name))
            await stack.enter_async_context(
                running_configuration_worker(self._configuration_runs, is_alone=is_alone)
            )
            await stack.enter_async_context(
                running_push_worker(WaitingPushWorker(self._sessions, self._directory))
            )
            await stack.enter_async_context(running_status_reports(self._sessions, self._settings))
            await stack.enter_async_context(
                running_notifications(
                    self._sessions,
                    self._settings,
                    self._sealing_keys,
                    self._links.page,
                    endpoints=self.private_endpoints,
                    is_alone=is_alone,
                )
            )
            await stack.enter_async_context(running_alert_scan(self.alert_scan, is_alone=is_alone))
            yield

    async def _apply_retention(self, stop: asyncio.Event) -> None:
        await apply_retention_periodically(
            self._sessions,
            self._store,
            stop,
            self._retention_changed,
            cluster=self._settings.clickhouse_cluster,
            data_folder=self._data_folder,
        )


async def _finish(stop: asyncio.Event, task: "asyncio.Task[None]") -> None:
    stop.set()
    await task
