-- Rollups of requests, jobs and queries, by minute and by hour (decision 50). They are projections: the engine writes each as a
-- piece of the part that has its rows, and merges and drops it with them. So it repeats or misses no row after a crash, a retried
-- insert or a deletion, and parts that are older than the projection are read row by row until it is built.
--
-- quantilesDD: percentiles with a relative error of at most 1 %, the same for any order of merges. Queries must have the same
-- expressions, and the setting `optimize_functions_to_subcolumns = 0`, or the engine reads the rows instead.

-- The rollups by hour have what these had. Dropped first: a later statement would wait until the new ones are built.
ALTER TABLE pharos.telemetry_events DROP PROJECTION IF EXISTS latency_by_hour;
ALTER TABLE pharos.otel_traces DROP PROJECTION IF EXISTS latency_by_hour;

-- Requests of each service and minute, for charts of hours; log records by severity.
ALTER TABLE pharos.telemetry_events ADD PROJECTION IF NOT EXISTS requests_by_minute
(
    SELECT
        environment_id, toStartOfMinute(timestamp), type, service, severity,
        count(), countIf(ifNull(status_code, 0) >= 500 OR severity IN ('error', 'critical')),
        quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(least(greatest(ifNull(duration_ms, 0), 0.000001), 1e9), isNotNull(duration_ms))
    GROUP BY environment_id, toStartOfMinute(timestamp), type, service, severity
);
-- Requests of each service and hour, for charts of days.
ALTER TABLE pharos.telemetry_events ADD PROJECTION IF NOT EXISTS requests_by_hour
(
    SELECT
        environment_id, toStartOfHour(timestamp), type, service,
        count(), countIf(ifNull(status_code, 0) >= 500 OR severity IN ('error', 'critical')),
        quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(least(greatest(ifNull(duration_ms, 0), 0.000001), 1e9), isNotNull(duration_ms))
    GROUP BY environment_id, toStartOfHour(timestamp), type, service
);
-- Routes of requests, names of jobs, and statements of queries, by hour. Other events of an hour, type and service are one row.
ALTER TABLE pharos.telemetry_events ADD PROJECTION IF NOT EXISTS calls_by_hour
(
    SELECT
        environment_id, toStartOfHour(timestamp), type, service,
        multiIf(
            type = 'request', substringUTF8(if(notEmpty(route), route, name), 1, 500),
            type = 'job', substringUTF8(name, 1, 500),
            type = 'query', substringUTF8(if(notEmpty(title), title, name), 1, 500),
            ''),
        count(), countIf(ifNull(status_code, 0) >= 500 OR severity IN ('error', 'critical')),
        sum(least(greatest(ifNull(duration_ms, 0), 0), 1e9)),
        quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(least(greatest(ifNull(duration_ms, 0), 0.000001), 1e9), isNotNull(duration_ms))
    GROUP BY
        environment_id, toStartOfHour(timestamp), type, service,
        multiIf(
            type = 'request', substringUTF8(if(notEmpty(route), route, name), 1, 500),
            type = 'job', substringUTF8(name, 1, 500),
            type = 'query', substringUTF8(if(notEmpty(title), title, name), 1, 500),
            '')
);
ALTER TABLE pharos.telemetry_events
    MATERIALIZE PROJECTION requests_by_minute,
    MATERIALIZE PROJECTION requests_by_hour,
    MATERIALIZE PROJECTION calls_by_hour
    SETTINGS mutations_sync = 0;

ALTER TABLE pharos.otel_traces ADD PROJECTION IF NOT EXISTS requests_by_minute
(
    SELECT
        EnvironmentId, toStartOfMinute(Timestamp), SpanKind, ServiceName,
        count(), countIf(StatusCode = 'Error'),
        quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(
            least(greatest(Duration / 1e6, 0.000001), 1e9), SpanKind IN ('Server', 'Consumer'))
    GROUP BY EnvironmentId, toStartOfMinute(Timestamp), SpanKind, ServiceName
);
ALTER TABLE pharos.otel_traces ADD PROJECTION IF NOT EXISTS requests_by_hour
(
    SELECT
        EnvironmentId, toStartOfHour(Timestamp), SpanKind, ServiceName,
        count(), countIf(StatusCode = 'Error'),
        quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(
            least(greatest(Duration / 1e6, 0.000001), 1e9), SpanKind IN ('Server', 'Consumer'))
    GROUP BY EnvironmentId, toStartOfHour(Timestamp), SpanKind, ServiceName
);
-- Names of the spans that serve requests, and statements of the spans that call a database, by hour. Other spans of an hour, kind
-- and service are one row.
ALTER TABLE pharos.otel_traces ADD PROJECTION IF NOT EXISTS calls_by_hour
(
    SELECT
        EnvironmentId, toStartOfHour(Timestamp), SpanKind, ServiceName,
        multiIf(
            SpanKind IN ('Server', 'Consumer'), substringUTF8(SpanName, 1, 500),
            SpanKind = 'Client' AND (notEmpty(SpanAttributes['db.system.name']) OR notEmpty(SpanAttributes['db.system'])),
            substringUTF8(
                multiIf(
                    notEmpty(SpanAttributes['db.query.text']), SpanAttributes['db.query.text'],
                    notEmpty(SpanAttributes['db.statement']), SpanAttributes['db.statement'], SpanName
                ), 1, 500
            ),
            ''),
        count(), countIf(StatusCode = 'Error'),
        sum(least(greatest(Duration / 1e6, 0), 1e9)),
        quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(
            least(greatest(Duration / 1e6, 0.000001), 1e9), SpanKind IN ('Server', 'Consumer', 'Client'))
    GROUP BY
        EnvironmentId, toStartOfHour(Timestamp), SpanKind, ServiceName,
        multiIf(
            SpanKind IN ('Server', 'Consumer'), substringUTF8(SpanName, 1, 500),
            SpanKind = 'Client' AND (notEmpty(SpanAttributes['db.system.name']) OR notEmpty(SpanAttributes['db.system'])),
            substringUTF8(
                multiIf(
                    notEmpty(SpanAttributes['db.query.text']), SpanAttributes['db.query.text'],
                    notEmpty(SpanAttributes['db.statement']), SpanAttributes['db.statement'], SpanName
                ), 1, 500
            ),
            '')
);
ALTER TABLE pharos.otel_traces
    MATERIALIZE PROJECTION requests_by_minute,
    MATERIALIZE PROJECTION requests_by_hour,
    MATERIALIZE PROJECTION calls_by_hour
    SETTINGS mutations_sync = 0;

-- Log records of each service, severity and minute.
ALTER TABLE pharos.otel_logs ADD PROJECTION IF NOT EXISTS records_by_minute
(
    SELECT EnvironmentId, toStartOfMinute(Timestamp), ServiceName, SeverityNumber, count()
    GROUP BY EnvironmentId, toStartOfMinute(Timestamp), ServiceName, SeverityNumber
);
ALTER TABLE pharos.otel_logs MODIFY SETTING lightweight_mutation_projection_mode = 'rebuild';
ALTER TABLE pharos.otel_logs MATERIALIZE PROJECTION records_by_minute SETTINGS mutations_sync = 0;
