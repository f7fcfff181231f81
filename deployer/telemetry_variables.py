"""Makes the environment variables with which a deployed application sends telemetry without any configuration."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from control_domain.projects.application_keys import ApplicationKey
from control_domain.workflows.read_workflow import WEB
from pipeline_contracts.sentry_dsn import make_sentry_dsn

_ENDPOINT = re.compile(r"OTEL_EXPORTER_OTLP(_[A-Z]+)?_ENDPOINT")
RELEASE = "release"
"""The name under which release steps appear as a process."""


@dataclass(frozen=True, slots=True)
class TelemetryVariables:
    """The URL to which the application of one environment sends telemetry, and its ingest key."""

    key: ApplicationKey
    url: str
    """The URL of the edge as applications reach it, without `/api`."""

    def for_process(self, process: str, revision: str, own: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of a process. `own`: the variables that the user has set; they take precedence.

        A user who sets an OTLP endpoint, `PHAROS_URL` or `SENTRY_DSN` sends telemetry elsewhere: the ingest key is then
        left out, so that no other server receives it.
        """
        key = self.key
        attributes = {
            "deployment.environment.name": key.environment,
            "service.namespace": key.project,
            "service.version": revision,
        }
        service = name_service(key.project, process)
        variables = {
            "OTEL_SERVICE_NAME": service,
            "OTEL_RESOURCE_ATTRIBUTES": ",".join(
                f"{name}={quote(value, safe='')}" for name, value in attributes.items() if value
            ),
            "PHAROS_ENVIRONMENT": key.environment,
        }
        if not any(_ENDPOINT.fullmatch(name) for name in own):
            variables["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"{self.url}/api/v1/otlp"
            # All SDKs support this protocol, and the edge accepts it with the key of an application. Few SDKs support
            # http/json.
            variables["OTEL_EXPORTER_OTLP_PROTOCOL"] = "http/protobuf"
            variables["OTEL_EXPORTER_OTLP_HEADERS"] = f"Authorization=Bearer%20{key.secret}"
        if "PHAROS_URL" not in own:
            variables["PHAROS_URL"] = self.url
            variables["PHAROS_INGEST_KEY"] = key.secret
        if "SENTRY_DSN" not in own:
            variables["SENTRY_DSN"] = make_sentry_dsn(self.url, key.secret)
            variables["SENTRY_ENVIRONMENT"] = key.environment
            if revision:
                # The edge takes the service and its version from the release: they are those of OpenTelemetry.
                variables["SENTRY_RELEASE"] = f"{service}@{revision}"
        return {**variables, **own}


def name_service(project: str, process: str) -> str:
    """Return the service name of a process. The process `web` has the name of the project."""
    return project if process == WEB else f"{project}-{process}"
