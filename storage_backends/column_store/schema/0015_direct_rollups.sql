-- Rollups of requests and calls by day, for ranges of weeks, and of page views by hour; and the parts of each past day are merged
-- into one (decision 53). Projections as in 0012_request_rollups; only `analytics_queries/telemetry/direct_rollups.py` reads these.
ALTER TABLE pharos.telemetry_events ADD PROJECTION IF NOT EXISTS requests_by_day
(
    SELECT
        environment_id, toDate(timestamp), type, service,
        count(), countIf(ifNull(status_code, 0) >= 500 OR severity IN ('error', 'critical')),
        quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(least(greatest(ifNull(duration_ms, 0), 0.000001), 1e9), isNotNull(duration_ms))
    GROUP BY environment_id, toDate(timestamp), type, service
);
ALTER TABLE pharos.telemetry_events ADD PROJECTION IF NOT EXISTS calls_by_day
(
    SELECT
        environment_id, toDate(timestamp), type, service,
        multiIf(
            type = 'request', substringUTF8(if(notEmpty(route), route, name), 1, 500),
            type = 'job', substringUTF8(name, 1, 500),
            type = 'query', substringUTF8(if(notEmpty(title), title, name), 1, 500),
            ''),
        count(), countIf(ifNull(status_code, 0) >= 500 OR severity IN ('error', 'critical')),
        sum(least(greatest(ifNull(duration_ms, 0), 0), 1e9)),
        quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(least(greatest(ifNull(duration_ms, 0), 0.000001), 1e9), isNotNull(duration_ms))
    GROUP BY
        environment_id, toDate(timestamp), type, service,
        multiIf(
            type = 'request', substringUTF8(if(notEmpty(route), route, name), 1, 500),
            type = 'job', substringUTF8(name, 1, 500),
            type = 'query', substringUTF8(if(notEmpty(title), title, name), 1, 500),
            '')
);
ALTER TABLE pharos.otel_traces ADD PROJECTION IF NOT EXISTS requests_by_day
(
    SELECT
        EnvironmentId, toDate(Timestamp), SpanKind, ServiceName,
        count(), countIf(StatusCode = 'Error'),
        quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(
            least(greatest(Duration / 1e6, 0.000001), 1e9), SpanKind IN ('Server', 'Consumer'))
    GROUP BY EnvironmentId, toDate(Timestamp), SpanKind, ServiceName
);
ALTER TABLE pharos.otel_traces ADD PROJECTION IF NOT EXISTS calls_by_day
(
    SELECT
        EnvironmentId, toDate(Timestamp), SpanKind, ServiceName,
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
        EnvironmentId, toDate(Timestamp), SpanKind, ServiceName,
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
-- Who only measures (Web Vitals, engagement) is no visitor.
ALTER TABLE pharos.pageviews ADD PROJECTION IF NOT EXISTS views_by_hour
(
    SELECT
        site_id, toStartOfHour(occurred_at),
        uniqCombinedIf(visitor, NOT is_event OR name NOT IN ('Web Vital', 'Engagement')), countIf(NOT is_event)
    GROUP BY site_id, toStartOfHour(occurred_at)
);

-- The parts of one day of receipt are merged into one when the newest is six hours old: each part adds time to the planning of a
-- read. Some versions of the engine do this only while 25 threads of its pool are idle.
ALTER TABLE pharos.telemetry_events
    MODIFY SETTING min_age_to_force_merge_seconds = 21600, min_age_to_force_merge_on_partition_only = 1,
    number_of_free_entries_in_pool_to_execute_optimize_entire_partition = 2;
ALTER TABLE pharos.otel_traces
    MODIFY SETTING min_age_to_force_merge_seconds = 21600, min_age_to_force_merge_on_partition_only = 1,
    number_of_free_entries_in_pool_to_execute_optimize_entire_partition = 2;
ALTER TABLE pharos.otel_traces_trace_id_ts
    MODIFY SETTING min_age_to_force_merge_seconds = 21600, min_age_to_force_merge_on_partition_only = 1,
    number_of_free_entries_in_pool_to_execute_optimize_entire_partition = 2;
ALTER TABLE pharos.otel_logs
    MODIFY SETTING min_age_to_force_merge_seconds = 21600, min_age_to_force_merge_on_partition_only = 1,
    number_of_free_entries_in_pool_to_execute_optimize_entire_partition = 2;
ALTER TABLE pharos.exceptions
    MODIFY SETTING min_age_to_force_merge_seconds = 21600, min_age_to_force_merge_on_partition_only = 1,
    number_of_free_entries_in_pool_to_execute_optimize_entire_partition = 2;
ALTER TABLE pharos.otel_metrics_gauge
    MODIFY SETTING min_age_to_force_merge_seconds = 21600, min_age_to_force_merge_on_partition_only = 1,
    number_of_free_entries_in_pool_to_execute_optimize_entire_partition = 2;
ALTER TABLE pharos.otel_metrics_sum
    MODIFY SETTING min_age_to_force_merge_seconds = 21600, min_age_to_force_merge_on_partition_only = 1,
    number_of_free_entries_in_pool_to_execute_optimize_entire_partition = 2;
ALTER TABLE pharos.otel_metrics_histogram
    MODIFY SETTING min_age_to_force_merge_seconds = 21600, min_age_to_force_merge_on_partition_only = 1,
    number_of_free_entries_in_pool_to_execute_optimize_entire_partition = 2;
ALTER TABLE pharos.otel_metrics_exponential_histogram
    MODIFY SETTING min_age_to_force_merge_seconds = 21600, min_age_to_force_merge_on_partition_only = 1,
    number_of_free_entries_in_pool_to_execute_optimize_entire_partition = 2;
ALTER TABLE pharos.otel_metrics_summary
    MODIFY SETTING min_age_to_force_merge_seconds = 21600, min_age_to_force_merge_on_partition_only = 1,
    number_of_free_entries_in_pool_to_execute_optimize_entire_partition = 2;

-- These come last: a later ALTER of the same table would wait until the projections are built.
ALTER TABLE pharos.telemetry_events
    MATERIALIZE PROJECTION requests_by_day,
    MATERIALIZE PROJECTION calls_by_day
    SETTINGS mutations_sync = 0;
ALTER TABLE pharos.otel_traces
    MATERIALIZE PROJECTION requests_by_day,
    MATERIALIZE PROJECTION calls_by_day
    SETTINGS mutations_sync = 0;
ALTER TABLE pharos.pageviews MATERIALIZE PROJECTION views_by_hour SETTINGS mutations_sync = 0;
