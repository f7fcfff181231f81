"""Assembles the application and the workers of the control plane, for the embedded platform and for processes."""

from dataclasses import dataclass

from fastapi import FastAPI

from control_api.app import build_control_app
from control_api.limits.report_queue import report_limits
from control_api.limits.request_limits import RequestLimiter, RequestLimits
from control_domain.database.engine import Sessions
from control_domain.sealing import SealingKeys
from control_workers.assemble import ControlWorkers
from pipeline_contracts.client_address import parse_trusted_proxies
from pipeline_contracts.settings import Settings
from storage_backends.column_store.interface import ColumnStore
from storage_backends.key_directory.interface import KeyDirectory


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The application, not served yet, and the workers, not running yet."""

    app: FastAPI
    workers: ControlWorkers


def assemble_control_plane(
    settings: Settings,
    *,
    sessions: Sessions,
    directory: KeyDirectory,
    store: ColumnStore,
    report_store: ColumnStore,
    receipt_key: bytes,
    sealing_keys: SealingKeys,
) -> ControlPlane:
    """Return the control plane on opened engines. Receipts read `store`; reports and the rollup worker use
    `report_store`, which may be the same. Raises `BadSettings`."""
    workers = ControlWorkers(settings, sessions, directory, report_store, sealing_keys)
    app = build_control_app(
        sessions,
        store,
        receipt_key,
        sealing_keys,
        parse_trusted_proxies(settings.trusted_proxies),
        workers.wake_configuration_runs,
        directory=directory,
        git_app_secret=settings.git_app_secret,
        report_store=report_store,
        report_limits=report_limits(settings.max_reports_at_once),
        request_limiter=RequestLimiter(RequestLimits.from_settings(settings)),
    )
    return ControlPlane(app, workers)
