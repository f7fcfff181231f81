"""`ExportTraceServiceRequest`."""

from collections.abc import Iterator

from msgspec import Struct

from pipeline_contracts.otlp.values import (
    Int32,
    KeyValue,
    Nanoseconds,
    Resource,
    Scope,
    SnakeCase,
    UInt32,
)


class SpanEvent(Struct, gc=False):
    """A timestamped event within a span."""

    timeUnixNano: Nanoseconds | None = None
    name: str | None = None
    attributes: list[KeyValue] | None = None
    time_unix_nano: SnakeCase = None


class SpanLink(Struct, gc=False):
    """A reference to a related span."""

    traceId: str | None = None
    spanId: str | None = None
    traceState: str | None = None
    attributes: list[KeyValue] | None = None
    trace_id: SnakeCase = None
    span_id: SnakeCase = None
    trace_state: SnakeCase = None


class SpanStatus(Struct, gc=False):
    """0 unset, 1 ok, 2 error."""

    code: Int32 | None = None
    message: str | None = None


class Span(Struct, gc=False):
    """One span; times are nanoseconds since 1970, IDs are hex of any case."""

    traceId: str | None = None
    spanId: str | None = None
    parentSpanId: str | None = None
    flags: UInt32 | None = None
    name: str | None = None
    kind: Int32 | None = None
    startTimeUnixNano: Nanoseconds | None = None
    endTimeUnixNano: Nanoseconds | None = None
    attributes: list[KeyValue] | None = None
    events: list[SpanEvent] | None = None
    links: list[SpanLink] | None = None
    status: SpanStatus | None = None
    traceState: str | None = None
    trace_id: SnakeCase = None
    span_id: SnakeCase = None
    parent_span_id: SnakeCase = None
    start_time_unix_nano: SnakeCase = None
    end_time_unix_nano: SnakeCase = None
    trace_state: SnakeCase = None


class ScopeSpans(Struct, gc=False):
    """The spans of one instrumentation library."""

    scope: Scope | None = None
    spans: list[Span] | None = None
    schemaUrl: str | None = None
    schema_url: SnakeCase = None


class ResourceSpans(Struct, gc=False):
    """The spans of one resource."""

    resource: Resource | None = None
    scopeSpans: list[ScopeSpans] | None = None
    schemaUrl: str | None = None
    scope_spans: SnakeCase = None
    schema_url: SnakeCase = None


class TracesRequest(Struct, gc=False):
    """The body of `POST /v1/otlp/v1/traces`."""

    resourceSpans: list[ResourceSpans] | None = None
    resource_spans: SnakeCase = None

    def by_scope(self) -> Iterator[tuple[ResourceSpans, ScopeSpans, list[Span]]]:
        """Yield the spans of each scope that has any, with the scope and its resource."""
        for resource_group in self.resourceSpans or ():
            for scope_group in resource_group.scopeSpans or ():
                if scope_group.spans:
                    yield resource_group, scope_group, scope_group.spans
