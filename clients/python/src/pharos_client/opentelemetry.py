"""OpenTelemetry in one call: `pharos_client.opentelemetry.setup(service_name="shop")`.

Needs `pip install 'pharos-client[opentelemetry]'` and Python 3.10. Pharos accepts OTLP as JSON. The exporter in most
guides sends protobuf, which a platform refuses with 415 unless its operator has set PHAROS_OTLP_PROTOBUF=1.
"""

from __future__ import annotations

import logging
import os
import warnings
from dataclasses import dataclass
from typing import Any

from pharos_client.settings import read_settings

_ENDPOINT_VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"


@dataclass(frozen=True)
class Providers:
    """The providers that `setup` has made. They are global: `opentelemetry.trace.get_tracer(…)` uses them."""

    tracers: Any
    loggers: Any
    meters: Any

    def flush(self, timeout: float = 10.0) -> None:
        """Send all buffered data, each signal for at most this many seconds."""
        for provider in (self.tracers, self.loggers, self.meters):
            provider.force_flush(int(timeout * 1000))

    def shutdown(self) -> None:
        """Send all buffered data and stop. This happens automatically at the end of the program."""
        for provider in (self.tracers, self.loggers, self.meters):
            provider.shutdown()


def setup(
    service_name: str | None = None,
    *,
    url: str | None = None,
    key: str | None = None,
    environment: str | None = None,
    release: str | None = None,
    log_level: int | None = logging.INFO,
) -> Providers:
    """Send traces, metrics and logs of this process to Pharos; return the providers.

    Absent arguments come from PHAROS_URL, PHAROS_INGEST_KEY, PHAROS_ENVIRONMENT and PHAROS_RELEASE, or from the
    standard OTEL_ variables. `log_level`: records of the module `logging` from this level are sent as logs, with their
    trace; None sends none. Call this once, before the application creates tracers. Raises `ImportError` if the SDK is
    not installed, and `ValueError` if there is no address.
    """
    try:
        from opentelemetry import _logs, metrics, trace
        from opentelemetry.exporter.otlp.json.http._log_exporter import OTLPLogExporter
        from opentelemetry.exporter.otlp.json.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.json.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ImportError(
            f"{error}. Install the OpenTelemetry SDK with its exporter in JSON: "
            "pip install 'pharos-client[opentelemetry]'"
        ) from error

    settings = read_settings(url, key, environment=environment, service=service_name, release=release)

    def target(signal: str) -> dict[str, Any]:
        if settings.is_complete:
            return {
                "endpoint": f"{settings.api}/v1/otlp/v1/{signal}",
                "headers": {"Authorization": f"Bearer {settings.key}"},
            }
        if not os.environ.get(_ENDPOINT_VARIABLE):
            raise ValueError(f"Set PHAROS_URL and PHAROS_INGEST_KEY, or {_ENDPOINT_VARIABLE}.")
        # The exporter reads the standard variables itself.
        return {}

    attributes = {
        "service.name": settings.service,
        "service.version": settings.release,
        "deployment.environment.name": settings.environment,
    }
    resource = Resource.create({name: value for name, value in attributes.items() if value})
    tracers = TracerProvider(resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(**target("traces"))))
    loggers = LoggerProvider(resource=resource)
    loggers.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(**target("logs"))))
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(**target("metrics")))
    meters = MeterProvider(resource=resource, metric_readers=[reader])
    trace.set_tracer_provider(tracers)
    _logs.set_logger_provider(loggers)
    metrics.set_meter_provider(meters)
    if log_level is not None:
        logging.getLogger().addHandler(_make_handler(log_level, loggers))
    return Providers(tracers, loggers, meters)


def _make_handler(level: int, loggers: Any) -> logging.Handler:
    try:
        from opentelemetry.instrumentation.logging.handler import LoggingHandler
    except ImportError:
        from opentelemetry.sdk._logs import LoggingHandler
    with warnings.catch_warnings():
        # The SDK's handler warns that it has moved to the package above, which need not be installed.
        warnings.simplefilter("ignore", DeprecationWarning)
        handler: logging.Handler = LoggingHandler(level=level, logger_provider=loggers)
    handler.addFilter(_is_of_application)
    return handler


def _is_of_application(record: logging.LogRecord) -> bool:
    """True unless the export itself has made the record: sending it would cause another export, and so on."""
    return record.name.split(".")[0] not in ("opentelemetry", "pharos_client", "urllib3")
