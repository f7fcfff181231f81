"""Gives each environment the ingest key of its application, and creates missing ones."""

import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import or_, select

from control_domain.database.engine import Sessions
from control_domain.projects.application_keys import (
    ApplicationKey,
    ensure_application_key,
    explain_missing_key,
    find_application_keys,
)
from control_domain.sealing import CannotOpen, SealingKeys
from control_domain.tables.deployments import Deployment, Release
from control_domain.tables.projects import Environment
from control_domain.tables.variables import VariableSet
from control_domain.variables.versions import open_variables
from deployer.shield import shielded
from deployer.telemetry_variables import TelemetryVariables
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.settings import PREFIX, BadSettings, Settings

logger = logging.getLogger(__name__)

PublishKey = Callable[[bytes], Awaitable[None]]
"""Publishes the key with this digest to the key directory. Raises `StorageUnavailable`."""


@dataclass(frozen=True, slots=True)
class ApplicationTelemetry:
    """Opens the telemetry keys of environments, and knows the URL to which applications send telemetry."""

    sessions: Sessions
    keys: SealingKeys = field(repr=False)
    now: Callable[[], datetime]
    url: str | None
    """The URL of the edge as applications reach it, without `/api`. None: the URL is not known, and no variables are
    injected."""
    publish: PublishKey | None = None
    """Publishes a new key. None: the control plane itself finds new keys in the database within a second."""
    on_key: list[Callable[[ApplicationKey], None]] = field(default_factory=list)
    """Functions that are called with each key that `open` has read or created."""

    async def open(self, environment_id: str) -> TelemetryVariables | None:
        """Return the telemetry variables of the environment with this public ID. Create a new key if the former one
        was revoked.

        Return None if the URL of the edge is not known, if the environment was removed, or if its key cannot be
        decrypted, which is logged. Raises database errors.
        """
        if self.url is None:
            return None
        try:
            ensured = await self._ensure(environment_id)
        except CannotOpen as error:
            logger.warning("an application starts without variables for telemetry: %s", error)
            return None
        if ensured is None:
            return None
        key, created = ensured
        if created is not None and self.publish is not None:
            try:
                await self.publish(created)
            except StorageUnavailable as error:
                logger.warning("the ingest key of an application is not published yet: %s", error)
        for notify in self.on_key:
            notify(key)
        return TelemetryVariables(key, self.url)

    @shielded
    async def _ensure(self, environment_id: str) -> tuple[ApplicationKey, bytes | None] | None:
        async with self.sessions() as session, session.begin():
            return await ensure_application_key(session, self.keys, environment_id, self.now())

    @shielded
    async def find_keys(self, environment_ids: Collection[str]) -> dict[str, ApplicationKey]:
        """Return the live keys of these environments by public ID. Creates no keys. Raises database errors."""
        async with self.sessions() as session:
            return await find_application_keys(session, self.keys, environment_ids, self.now())

    @shielded
    async def explain_missing_key(self, environment_id: str) -> str | None:
        """Return why `find_keys` finds no key of the environment, in one line; None if the environment was removed.
        Raises database errors."""
        async with self.sessions() as session:
            return await explain_missing_key(session, environment_id, self.now())

    @shielded
    async def read_values(self, environment_id: str, deployment_id: int) -> list[str]:
        """Return the values of the variables that the processes of a deployment have. Raises database errors, and
        `CannotOpen`, also if the release of the deployment is not known."""
        query = (
            select(VariableSet)
            .select_from(Release)
            .outerjoin(VariableSet, VariableSet.id == Release.variables_id)
            .join(
                Deployment,
                or_(
                    Release.deployment_id == Deployment.id,
                    Release.deployment_id == Deployment.rolled_back_to_id,
                ),
            )
            .join(Environment, Environment.id == Deployment.environment_id)
            .where(
                Environment.public_id == environment_id,
                Deployment.id == deployment_id,
            )
        )
        async with self.sessions() as session:
            found = (await session.execute(query)).scalars().all()
        if not found:
            raise CannotOpen(f"The release of deployment {deployment_id} is not known.")
        return [value for each in found for value in open_variables(self.keys, each, environment_id).values()]


def choose_telemetry_url(settings: Settings, local_edge: str | None) -> str | None:
    """Return the URL at which applications reach the edge: the setting, or else the edge in this process, or else the
    public URL. None if the URL is not known. Raises `BadSettings`."""
    url = settings.deploy_telemetry_url or local_edge or settings.public_url
    if url is None:
        return None
    if not url.startswith(("http://", "https://")):
        name = "DEPLOY_TELEMETRY_URL" if settings.deploy_telemetry_url else "PUBLIC_URL"
        raise BadSettings(f"{PREFIX}{name}: {url!r} is no URL: it has to begin with http:// or https://.")
    return url.rstrip("/").removesuffix("/api")
