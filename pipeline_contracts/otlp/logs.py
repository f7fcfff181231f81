"""`ExportLogsServiceRequest`."""

from collections.abc import Iterator

from msgspec import Struct

from pipeline_contracts.otlp.values import (
    AnyValue,
    Int32,
    KeyValue,
    Nanoseconds,
    Resource,
    Scope,
    SnakeCase,
    UInt32,
)


class OtlpLogRecord(Struct, omit_defaults=True, gc=False):
    """One log record; times are nanoseconds since 1970, severities 1 (trace) to 24 (fatal)."""

    timeUnixNano: Nanoseconds | None = None
    observedTimeUnixNano: Nanoseconds | None = None
    severityNumber: Int32 | None = None
    severityText: str | None = None
    body: AnyValue | None = None
    attributes: list[KeyValue] | None = None
    flags: UInt32 | None = None
    traceId: str | None = None
    spanId: str | None = None
    eventName: str | None = None
    time_unix_nano: SnakeCase = None
    observed_time_unix_nano: SnakeCase = None
    severity_number: SnakeCase = None
    severity_text: SnakeCase = None
    trace_id: SnakeCase = None
    span_id: SnakeCase = None
    event_name: SnakeCase = None


class ScopeLogs(Struct, gc=False):
    """The records of one instrumentation library."""

    scope: Scope | None = None
    logRecords: list[OtlpLogRecord] | None = None
    schemaUrl: str | None = None
    log_records: SnakeCase = None
    schema_url: SnakeCase = None


class ResourceLogs(Struct, gc=False):
    """The records of one resource."""

    resource: Resource | None = None
    scopeLogs: list[ScopeLogs] | None = None
    schemaUrl: str | None = None
    scope_logs: SnakeCase = None
    schema_url: SnakeCase = None


class LogsRequest(Struct, gc=False):
    """The body of `POST /v1/otlp/v1/logs`."""

    resourceLogs: list[ResourceLogs] | None = None
    resource_logs: SnakeCase = None

    def by_scope(self) -> Iterator[tuple[ResourceLogs, ScopeLogs, list[OtlpLogRecord]]]:
        """Yield the records of each scope that has any, with the scope and its resource."""
        for resource_group in self.resourceLogs or ():
            for scope_group in resource_group.scopeLogs or ():
                if scope_group.logRecords:
                    yield resource_group, scope_group, scope_group.logRecords
