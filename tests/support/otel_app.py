"""A small application with the OpenTelemetry SDK for Python: `python -m tests.support.otel_app json|proto`.

`OTEL_EXPORTER_OTLP_ENDPOINT` and `_HEADERS` configure the exporter. The program prints the spans that it made as JSON.
"""

import json
import logging
import sys
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor


def _exporters(protocol: str) -> tuple[Any, Any, Any]:
    if protocol == "proto":
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    else:
        from opentelemetry.exporter.otlp.json.http._log_exporter import OTLPLogExporter
        from opentelemetry.exporter.otlp.json.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.json.http.trace_exporter import OTLPSpanExporter
    return OTLPSpanExporter(), OTLPLogExporter(), OTLPMetricExporter()


def main(protocol: str) -> None:
    spans, logs, points = _exporters(protocol)
    resource = Resource.create({"service.name": f"py-{protocol}", "service.version": "1.2.3"})
    tracing = TracerProvider(resource=resource)
    tracing.add_span_processor(BatchSpanProcessor(spans))
    logging_provider = LoggerProvider(resource=resource)
    logging_provider.add_log_record_processor(BatchLogRecordProcessor(logs))
    metering = MeterProvider(resource=resource, metric_readers=[PeriodicExportingMetricReader(points)])
    made = _emit_telemetry(
        tracing.get_tracer("py-app", "0.1.0"),
        metering.get_meter("py-app"),
        LoggingHandler(logger_provider=logging_provider),
    )
    for provider in (tracing, logging_provider, metering):
        # The default timeout of metrics is ten seconds, after which the exporter raises.
        provider.force_flush(100_000)
        provider.shutdown()
    print(json.dumps(made))


def _emit_telemetry(tracer: trace.Tracer, meter: metrics.Meter, handler: logging.Handler) -> dict[str, Any]:
    logger = logging.getLogger("py-app")
    logger.propagate = False
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    orders = meter.create_counter("orders", unit="1", description="Orders placed")
    open_orders = meter.create_up_down_counter("orders.open")
    duration = meter.create_histogram("order.duration", unit="ms")
    meter.create_observable_gauge(
        "temperature", callbacks=[lambda _options: [metrics.Observation(21.5, {"room": "a"})]]
    )
    made: list[dict[str, Any]] = []

    def record(span: Any, attributes: dict[str, Any]) -> None:
        span.set_attributes(attributes)
        context = span.get_span_context()
        made.append(
            {
                "traceId": f"{context.trace_id:032x}",
                "spanId": f"{context.span_id:016x}",
                "name": span.name,
                "attributes": attributes,
            }
        )

    for number in range(1, 41):
        with tracer.start_as_current_span(f"order {number}", kind=trace.SpanKind.SERVER) as order:
            attributes = {
                "order.number": number,
                "order.express": number % 2 == 0,
                "order.total": number + 0.5,
                "order.tags": ["a", "ü"],
            }
            record(order, attributes)
            for step in ("charge", "ship"):
                link = trace.Link(order.get_span_context())
                with tracer.start_as_current_span(step, kind=trace.SpanKind.CLIENT, links=[link]) as span:
                    record(span, {"step": step, "peer.service": f"{step}-service"})
                    span.add_event("tried", {"attempt": 1})
                    if number % 10 == 0 and step == "ship":
                        span.record_exception(RuntimeError(f"no lorry for order {number}"))
                        span.set_status(trace.StatusCode.ERROR, "not shipped")
            logger.info("order %d placed", number, extra={"number": number})
            orders.add(1, {"express": number % 2 == 0})
            open_orders.add(1 if number % 2 == 0 else -1)
            duration.record(number * 3)
    return {"spans": made, "logs": 40}


if __name__ == "__main__":
    main(sys.argv[1])
