"""Assembles the application and the workers of the control plane, for the embedded platform and for processes."""

from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI

from control_api.app import build_control_app
from control_api.limits.report_queue import report_limits
from control_api.limits.request_limits import RequestLimiter, RequestLimits
from control_api.management.storage import BackupSettings, StorageAccess
from control_api.oidc.oidc_settings import read_oidc_settings
from control_api.oidc.provider import OidcProvider
from control_domain.database.engine import Sessions
from control_domain.first_account.owner_email import read_owner_email
from control_domain.notifications.channel_types import find_unavailable_types
from control_domain.notifications.destination_formats import find_http_url_fault
from control_domain.notifications.signed_links import IncidentLinks
from control_domain.process_output import ProcessOutput
from control_domain.repositories.local_folders import NO_FOLDERS, LocalFolders, parse_local_folders
from control_domain.sealing import SealingKeys
from control_workers.assemble import ControlWorkers
from notifications.channels.smtp_settings import read_smtp_settings
from pipeline_contracts.client_address import parse_trusted_proxies
from pipeline_contracts.settings import PREFIX, BadSettings, Settings
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
    process_output: ProcessOutput | None = None,
    default_folders: LocalFolders = NO_FOLDERS,
    data_folder: Path | None = None,
) -> ControlPlane:
    """Return the control plane on opened engines. Raises `BadSettings`.

    Receipts read `store`; reports and the rollup worker use `report_store`, which may be the same. `process_output` is
    the output of the deployer on this machine. Folders in `default_folders` may be connected as repositories if no
    setting names folders. `data_folder` is the folder of the embedded platform, whose disk is monitored; None if the
    engines are servers.
    """
    check_settings(settings)
    oidc = read_oidc_settings(settings)
    links = IncidentLinks(receipt_key, settings.public_url)
    workers = ControlWorkers(settings, sessions, directory, report_store, sealing_keys, links, data_folder)
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
        process_output=process_output,
        public_url=settings.public_url,
        repository_folders=_read_folders(settings) or default_folders,
        unavailable_channels=find_unavailable_types(settings),
        oidc=None if oidc is None else OidcProvider(oidc),
        storage_access=StorageAccess(
            data_folder,
            settings.clickhouse_cluster,
            workers.wake_retention,
            BackupSettings(
                Path(settings.backup_folder) if settings.backup_folder else None,
                settings.backup_hours,
                settings.backup_keep,
            ),
        ),
    )
    return ControlPlane(app, workers)


def check_settings(settings: Settings) -> None:
    """Raise `BadSettings` for faults that do not depend on the engines' contents, before any engine is opened or
    migrated."""
    for name, url in (
        ("PUBLIC_URL", settings.public_url),
        ("DEPLOY_TELEMETRY_URL", settings.deploy_telemetry_url),
    ):
        if url is not None and (fault := find_http_url_fault(url)) is not None:
            raise BadSettings(f"{PREFIX}{name}: {fault}")
    _read_folders(settings)
    read_smtp_settings(settings)
    read_owner_email(settings)
    read_oidc_settings(settings)


def _read_folders(settings: Settings) -> LocalFolders | None:
    if settings.repository_folders is None:
        return None
    try:
        return parse_local_folders(settings.repository_folders)
    except ValueError as error:
        raise BadSettings(f"{PREFIX}REPOSITORY_FOLDERS: {error}") from error
