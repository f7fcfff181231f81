-- What reads of telemetry need besides the rows (decision 45): a table of exceptions, projections, and an index. A projection
-- is written as a piece of the part that has its rows, so it can neither miss nor repeat one.

-- One row per exception: telemetry events of that type, span events of that name, and log records with `exception.type`.
-- `group_id` is a hash of the sender's fingerprint, or else of the message without its variable parts and the innermost frame
-- without its line. `identity` is equal for rows of one exception: if it is an event of its span and also a log record, and
-- after a crash. Readers count distinct identities. Long stacks have no middle.
CREATE TABLE IF NOT EXISTS pharos.exceptions
(
    environment_id  LowCardinality(String),
    timestamp       DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    received_at     DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    stored_at       DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)),
    source          LowCardinality(String) CODEC(ZSTD(1)),
    service         LowCardinality(String) CODEC(ZSTD(1)),
    version         LowCardinality(String) CODEC(ZSTD(1)),
    fingerprint     String CODEC(ZSTD(1)),
    kind            String CODEC(ZSTD(1)),
    message         String CODEC(ZSTD(1)),
    stack           String CODEC(ZSTD(1)),
    -- Python prints the innermost frame last, the others first.
    frame           String DEFAULT replaceRegexpAll(
        multiIf(
            stack = '', '',
            notEmpty(extractAllGroupsVertical(stack, 'File "([^"]+)", line [0-9]+, in ([^\\n]+)')),
                arrayStringConcat(extractAllGroupsVertical(stack, 'File "([^"]+)", line [0-9]+, in ([^\\n]+)')[-1], ' in '),
            extract(stack, '(?m)^\\s*at ([^\\n]+)$') != '', extract(stack, '(?m)^\\s*at ([^\\n]+)$'),
            extract(stack, '(?m)^\\s*(?:from )?([^\\s:]+\\.rb:[0-9]+:in [^\\n]+)$') != '',
                extract(stack, '(?m)^\\s*(?:from )?([^\\s:]+\\.rb:[0-9]+:in [^\\n]+)$'),
            extract(stack, '(?m)^\\s+(\\S+\\.go):[0-9]+')),
        ':[0-9]+', '') CODEC(ZSTD(1)),
    -- Variable parts of messages: e-mail addresses, UUIDs, URLs, quoted texts, hexadecimal and decimal numbers.
    group_id        UInt64 DEFAULT sipHash64(environment_id, fingerprint != '', if(fingerprint != '', fingerprint, concat(
        kind, '\n',
        replaceRegexpAll(
            replaceRegexpAll(
                replaceRegexpAll(
                    replaceRegexpAll(
                        replaceRegexpAll(
                            replaceRegexpAll(substring(message, 1, 1000), '[\\w.+-]+@[\\w-]+(\\.[\\w-]+)+', '<email>'),
                            '(?i)\\b[0-9a-f]{8,8}-[0-9a-f]{4,4}-[0-9a-f]{4,4}-[0-9a-f]{4,4}-[0-9a-f]{12,12}\\b', '<uuid>'),
                        '\\bhttps?://[^\\s"\'<>]+', '<url>'),
                    '"[^"]*"|\'[^\']*\'|`[^`]*`', '<text>'),
                '\\b(0[xX][0-9a-fA-F]+|[0-9a-fA-F]*[0-9][0-9a-fA-F]{7,}|[0-9a-fA-F]{7,}[0-9][0-9a-fA-F]*)\\b', '<hex>'),
            '[0-9]+([.,:][0-9]+)*', '<number>'),
        '\n', frame))) CODEC(ZSTD(1)),
    identity        UInt64 CODEC(ZSTD(1)),
    trace_id        String CODEC(ZSTD(1)),
    span_id         String CODEC(ZSTD(1)),
    user            String CODEC(ZSTD(1)),
    reported_users  UInt64 CODEC(T64, ZSTD(1)),
    log             LowCardinality(String) CODEC(ZSTD(1)),
    log_offset      UInt64 CODEC(Delta, ZSTD(1)),
    INDEX by_offset log_offset TYPE minmax GRANULARITY 1,
    -- When was each group seen first and last?
    PROJECTION group_times
    (
        SELECT environment_id, group_id, min(timestamp), max(timestamp) GROUP BY environment_id, group_id
    )
)
ENGINE = MergeTree
PARTITION BY toDate(received_at)
ORDER BY (environment_id, toDate(timestamp), group_id, timestamp)
TTL toDateTime(received_at) + INTERVAL {exceptions}
SETTINGS
    non_replicated_deduplication_window = 10000,
    fsync_after_insert = 1,
    fsync_part_directory = 1,
    ttl_only_drop_parts = 1,
    min_parts_to_merge_at_once = 8,
    lightweight_mutation_projection_mode = 'rebuild';

-- The exceptions in each table, for rows that the materialized views have missed: older ones, and after a crash. The
-- materialized views have the same queries. Texts of a span are copied to each of its exceptions: they are cut, and a span has
-- at most 100, so that no small request becomes a large block.

CREATE VIEW IF NOT EXISTS pharos.exceptions_of_events
AS SELECT
    event.environment_id AS environment_id,
    toDateTime64(event.timestamp, 9, 'UTC') AS timestamp,
    event.received_at AS received_at,
    'event' AS source,
    event.service AS service,
    substringUTF8(
        if(JSONHas(event.attributes, 'service.version'), JSONExtractString(event.attributes, 'service.version'),
            JSONExtractString(event.attributes, 'release')), 1, 255
    ) AS version,
    event.fingerprint AS fingerprint,
    if(event.name != '' AND event.title != '', substringUTF8(event.name, 1, 500), '') AS kind,
    substringUTF8(
        multiIf(event.title != '', event.title, event.name != '', event.name, splitByChar('\n', event.details)[1]), 1, 2000
    ) AS message,
    if(lengthUTF8(event.details) <= 20000, event.details,
        concat(substringUTF8(event.details, 1, 10000), '\n…\n', substringUTF8(event.details, -10000))) AS stack,
    sipHash64(event.log, event.log_offset, event.position) AS identity,
    event.trace_id AS trace_id,
    if(event.span_id != '', event.span_id, event.parent_span_id) AS span_id,
    substringUTF8(JSONExtractString(event.attributes, 'user.id'), 1, 255) AS user,
    toUInt64(greatest(ifNull(event.affected_users, 0), 0)) AS reported_users,
    event.log AS log,
    event.log_offset AS log_offset
FROM pharos.telemetry_events AS event
WHERE event.type = 'exception';

CREATE VIEW IF NOT EXISTS pharos.exceptions_of_spans
AS SELECT
    span.environment_id AS environment_id,
    event_time AS timestamp,
    span.received_at AS received_at,
    'span' AS source,
    span.service AS service,
    span.version AS version,
    '' AS fingerprint,
    substringUTF8(event['exception.type'], 1, 500) AS kind,
    substringUTF8(event['exception.message'], 1, 2000) AS message,
    if(lengthUTF8(event['exception.stacktrace']) <= 20000, event['exception.stacktrace'], concat(
        substringUTF8(event['exception.stacktrace'], 1, 10000), '\n…\n',
        substringUTF8(event['exception.stacktrace'], -10000))) AS stack,
    sipHash64(span.trace_id, span.span_id, event['exception.type'], event['exception.message']) AS identity,
    span.trace_id AS trace_id,
    span.span_id AS span_id,
    span.user AS user,
    toUInt64(0) AS reported_users,
    span.log AS log,
    span.log_offset AS log_offset
FROM
(
    SELECT
        EnvironmentId AS environment_id,
        ReceivedAt AS received_at,
        substringUTF8(ServiceName, 1, 255) AS service,
        substringUTF8(ResourceAttributes['service.version'], 1, 255) AS version,
        TraceId AS trace_id,
        SpanId AS span_id,
        substringUTF8(
            if(SpanAttributes['user.id'] != '', SpanAttributes['user.id'], SpanAttributes['enduser.id']), 1, 255
        ) AS user,
        log,
        log_offset,
        arraySlice(arrayFilter((at, name) -> name = 'exception', Events.Timestamp, Events.Name), 1, 100) AS event_times,
        arraySlice(
            arrayFilter((attributes, name) -> name = 'exception', Events.Attributes, Events.Name), 1, 100
        ) AS event_attributes
    FROM pharos.otel_traces
    WHERE has(Events.Name, 'exception')
) AS span
ARRAY JOIN event_times AS event_time, event_attributes AS event;

CREATE VIEW IF NOT EXISTS pharos.exceptions_of_logs
AS SELECT
    record.EnvironmentId AS environment_id,
    record.Timestamp AS timestamp,
    record.ReceivedAt AS received_at,
    'log' AS source,
    substringUTF8(record.ServiceName, 1, 255) AS service,
    substringUTF8(record.ResourceAttributes['service.version'], 1, 255) AS version,
    '' AS fingerprint,
    substringUTF8(record.LogAttributes['exception.type'], 1, 500) AS kind,
    substringUTF8(
        if(record.LogAttributes['exception.message'] != '', record.LogAttributes['exception.message'], record.Body), 1, 2000
    ) AS message,
    if(lengthUTF8(record.LogAttributes['exception.stacktrace']) <= 20000, record.LogAttributes['exception.stacktrace'], concat(
        substringUTF8(record.LogAttributes['exception.stacktrace'], 1, 10000), '\n…\n',
        substringUTF8(record.LogAttributes['exception.stacktrace'], -10000))) AS stack,
    if(record.TraceId != '' AND record.SpanId != '',
        sipHash64(
            record.TraceId, record.SpanId, record.LogAttributes['exception.type'],
            if(record.LogAttributes['exception.message'] != '', record.LogAttributes['exception.message'], record.Body)
        ),
        sipHash64(record.log, record.log_offset, record.Timestamp, record.Body)
    ) AS identity,
    record.TraceId AS trace_id,
    record.SpanId AS span_id,
    substringUTF8(
        if(record.LogAttributes['user.id'] != '', record.LogAttributes['user.id'], record.LogAttributes['enduser.id']), 1, 255
    ) AS user,
    toUInt64(0) AS reported_users,
    record.log AS log,
    record.log_offset AS log_offset
FROM pharos.otel_logs AS record
WHERE record.LogAttributes['exception.type'] != '';

CREATE MATERIALIZED VIEW IF NOT EXISTS pharos.exceptions_of_events_mv TO pharos.exceptions
AS SELECT
    event.environment_id AS environment_id,
    toDateTime64(event.timestamp, 9, 'UTC') AS timestamp,
    event.received_at AS received_at,
    'event' AS source,
    event.service AS service,
    substringUTF8(
        if(JSONHas(event.attributes, 'service.version'), JSONExtractString(event.attributes, 'service.version'),
            JSONExtractString(event.attributes, 'release')), 1, 255
    ) AS version,
    event.fingerprint AS fingerprint,
    if(event.name != '' AND event.title != '', substringUTF8(event.name, 1, 500), '') AS kind,
    substringUTF8(
        multiIf(event.title != '', event.title, event.name != '', event.name, splitByChar('\n', event.details)[1]), 1, 2000
    ) AS message,
    if(lengthUTF8(event.details) <= 20000, event.details,
        concat(substringUTF8(event.details, 1, 10000), '\n…\n', substringUTF8(event.details, -10000))) AS stack,
    sipHash64(event.log, event.log_offset, event.position) AS identity,
    event.trace_id AS trace_id,
    if(event.span_id != '', event.span_id, event.parent_span_id) AS span_id,
    substringUTF8(JSONExtractString(event.attributes, 'user.id'), 1, 255) AS user,
    toUInt64(greatest(ifNull(event.affected_users, 0), 0)) AS reported_users,
    event.log AS log,
    event.log_offset AS log_offset
FROM pharos.telemetry_events AS event
WHERE event.type = 'exception';

CREATE MATERIALIZED VIEW IF NOT EXISTS pharos.exceptions_of_spans_mv TO pharos.exceptions
AS SELECT
    span.environment_id AS environment_id,
    event_time AS timestamp,
    span.received_at AS received_at,
    'span' AS source,
    span.service AS service,
    span.version AS version,
    '' AS fingerprint,
    substringUTF8(event['exception.type'], 1, 500) AS kind,
    substringUTF8(event['exception.message'], 1, 2000) AS message,
    if(lengthUTF8(event['exception.stacktrace']) <= 20000, event['exception.stacktrace'], concat(
        substringUTF8(event['exception.stacktrace'], 1, 10000), '\n…\n',
        substringUTF8(event['exception.stacktrace'], -10000))) AS stack,
    sipHash64(span.trace_id, span.span_id, event['exception.type'], event['exception.message']) AS identity,
    span.trace_id AS trace_id,
    span.span_id AS span_id,
    span.user AS user,
    toUInt64(0) AS reported_users,
    span.log AS log,
    span.log_offset AS log_offset
FROM
(
    SELECT
        EnvironmentId AS environment_id,
        ReceivedAt AS received_at,
        substringUTF8(ServiceName, 1, 255) AS service,
        substringUTF8(ResourceAttributes['service.version'], 1, 255) AS version,
        TraceId AS trace_id,
        SpanId AS span_id,
        substringUTF8(
            if(SpanAttributes['user.id'] != '', SpanAttributes['user.id'], SpanAttributes['enduser.id']), 1, 255
        ) AS user,
        log,
        log_offset,
        arraySlice(arrayFilter((at, name) -> name = 'exception', Events.Timestamp, Events.Name), 1, 100) AS event_times,
        arraySlice(
            arrayFilter((attributes, name) -> name = 'exception', Events.Attributes, Events.Name), 1, 100
        ) AS event_attributes
    FROM pharos.otel_traces
    WHERE has(Events.Name, 'exception')
) AS span
ARRAY JOIN event_times AS event_time, event_attributes AS event;

CREATE MATERIALIZED VIEW IF NOT EXISTS pharos.exceptions_of_logs_mv TO pharos.exceptions
AS SELECT
    record.EnvironmentId AS environment_id,
    record.Timestamp AS timestamp,
    record.ReceivedAt AS received_at,
    'log' AS source,
    substringUTF8(record.ServiceName, 1, 255) AS service,
    substringUTF8(record.ResourceAttributes['service.version'], 1, 255) AS version,
    '' AS fingerprint,
    substringUTF8(record.LogAttributes['exception.type'], 1, 500) AS kind,
    substringUTF8(
        if(record.LogAttributes['exception.message'] != '', record.LogAttributes['exception.message'], record.Body), 1, 2000
    ) AS message,
    if(lengthUTF8(record.LogAttributes['exception.stacktrace']) <= 20000, record.LogAttributes['exception.stacktrace'], concat(
        substringUTF8(record.LogAttributes['exception.stacktrace'], 1, 10000), '\n…\n',
        substringUTF8(record.LogAttributes['exception.stacktrace'], -10000))) AS stack,
    if(record.TraceId != '' AND record.SpanId != '',
        sipHash64(
            record.TraceId, record.SpanId, record.LogAttributes['exception.type'],
            if(record.LogAttributes['exception.message'] != '', record.LogAttributes['exception.message'], record.Body)
        ),
        sipHash64(record.log, record.log_offset, record.Timestamp, record.Body)
    ) AS identity,
    record.TraceId AS trace_id,
    record.SpanId AS span_id,
    substringUTF8(
        if(record.LogAttributes['user.id'] != '', record.LogAttributes['user.id'], record.LogAttributes['enduser.id']), 1, 255
    ) AS user,
    toUInt64(0) AS reported_users,
    record.log AS log,
    record.log_offset AS log_offset
FROM pharos.otel_logs AS record
WHERE record.LogAttributes['exception.type'] != '';

-- Rows that are older than the views. If a crash repeats this, readers still count each exception once. Telemetry that is kept
-- for more than 100 days has more partitions than a block may have by default.

INSERT INTO pharos.exceptions
(
    environment_id, timestamp, received_at, source, service, version, fingerprint, kind, message, stack, identity, trace_id,
    span_id, user, reported_users, log, log_offset
)
SELECT
    environment_id, timestamp, received_at, source, service, version, fingerprint, kind, message, stack, identity, trace_id,
    span_id, user, reported_users, log, log_offset
FROM pharos.exceptions_of_events
SETTINGS max_partitions_per_insert_block = 0;

INSERT INTO pharos.exceptions
(
    environment_id, timestamp, received_at, source, service, version, fingerprint, kind, message, stack, identity, trace_id,
    span_id, user, reported_users, log, log_offset
)
SELECT
    environment_id, timestamp, received_at, source, service, version, fingerprint, kind, message, stack, identity, trace_id,
    span_id, user, reported_users, log, log_offset
FROM pharos.exceptions_of_spans
SETTINGS max_partitions_per_insert_block = 0;

INSERT INTO pharos.exceptions
(
    environment_id, timestamp, received_at, source, service, version, fingerprint, kind, message, stack, identity, trace_id,
    span_id, user, reported_users, log, log_offset
)
SELECT
    environment_id, timestamp, received_at, source, service, version, fingerprint, kind, message, stack, identity, trace_id,
    span_id, user, reported_users, log, log_offset
FROM pharos.exceptions_of_logs
SETTINGS max_partitions_per_insert_block = 0;

-- An operator may still delete rows (DELETE FROM): the engine refuses that for tables with projections unless it may rebuild them.
ALTER TABLE pharos.telemetry_events MODIFY SETTING lightweight_mutation_projection_mode = 'rebuild';
ALTER TABLE pharos.otel_traces MODIFY SETTING lightweight_mutation_projection_mode = 'rebuild';
ALTER TABLE pharos.otel_traces_trace_id_ts MODIFY SETTING lightweight_mutation_projection_mode = 'rebuild';
ALTER TABLE pharos.otel_metrics_gauge MODIFY SETTING lightweight_mutation_projection_mode = 'rebuild';
ALTER TABLE pharos.otel_metrics_sum MODIFY SETTING lightweight_mutation_projection_mode = 'rebuild';
ALTER TABLE pharos.otel_metrics_histogram MODIFY SETTING lightweight_mutation_projection_mode = 'rebuild';
ALTER TABLE pharos.otel_metrics_exponential_histogram MODIFY SETTING lightweight_mutation_projection_mode = 'rebuild';
ALTER TABLE pharos.otel_metrics_summary MODIFY SETTING lightweight_mutation_projection_mode = 'rebuild';

-- Requests and errors of each service, hour and bucket of durations. Bucket b holds durations up to 2^(b/8) ms and above those
-- of bucket b - 1; bucket -1000 holds requests without a duration.
ALTER TABLE pharos.telemetry_events ADD PROJECTION IF NOT EXISTS latency_by_hour
(
    SELECT
        environment_id, toStartOfHour(timestamp), type, service,
        if(isNull(duration_ms), toInt16(-1000), toInt16(ceil(8 * log2(least(greatest(ifNull(duration_ms, 0), 0.001), 1e9))))),
        count(), countIf(ifNull(status_code, 0) >= 500 OR severity IN ('error', 'critical'))
    GROUP BY
        environment_id, toStartOfHour(timestamp), type, service,
        if(isNull(duration_ms), toInt16(-1000), toInt16(ceil(8 * log2(least(greatest(ifNull(duration_ms, 0), 0.001), 1e9)))))
);
ALTER TABLE pharos.telemetry_events MATERIALIZE PROJECTION latency_by_hour;

-- Names of metrics by day. Other events of a day, type and service are one row.
ALTER TABLE pharos.telemetry_events ADD PROJECTION IF NOT EXISTS metric_names_by_day
(
    SELECT
        environment_id, toDate(timestamp), type, if(type = 'metric', name, ''), service,
        min(timestamp), max(timestamp), anyLast(if(type = 'metric', JSONExtractString(payload, 'unit'), ''))
    GROUP BY environment_id, toDate(timestamp), type, if(type = 'metric', name, ''), service
);
ALTER TABLE pharos.telemetry_events MATERIALIZE PROJECTION metric_names_by_day;

-- Filters that match few events of a long time.
ALTER TABLE pharos.telemetry_events
    ADD INDEX IF NOT EXISTS by_service service TYPE bloom_filter(0.01) GRANULARITY 1,
    ADD INDEX IF NOT EXISTS by_name name TYPE bloom_filter(0.01) GRANULARITY 1,
    ADD INDEX IF NOT EXISTS by_route route TYPE bloom_filter(0.01) GRANULARITY 1;
ALTER TABLE pharos.telemetry_events MATERIALIZE INDEX by_service, MATERIALIZE INDEX by_name, MATERIALIZE INDEX by_route;

ALTER TABLE pharos.otel_traces ADD PROJECTION IF NOT EXISTS latency_by_hour
(
    SELECT
        EnvironmentId, toStartOfHour(Timestamp), ServiceName, SpanKind,
        toInt16(ceil(8 * log2(least(greatest(Duration / 1e6, 0.001), 1e9)))),
        count(), countIf(StatusCode = 'Error')
    GROUP BY
        EnvironmentId, toStartOfHour(Timestamp), ServiceName, SpanKind,
        toInt16(ceil(8 * log2(least(greatest(Duration / 1e6, 0.001), 1e9))))
);
ALTER TABLE pharos.otel_traces MATERIALIZE PROJECTION latency_by_hour;

-- Traces in the order of their start; the table is in the order of their IDs.
ALTER TABLE pharos.otel_traces_trace_id_ts ADD PROJECTION IF NOT EXISTS by_start
(
    SELECT TraceId, Start, End, EnvironmentId ORDER BY EnvironmentId, Start
);
ALTER TABLE pharos.otel_traces_trace_id_ts MATERIALIZE PROJECTION by_start;

-- Searches for words in logs. The exporter's bloom filters cover 65,000 records each, and fill up if records contain IDs. Old
-- parts do not get these indexes: MATERIALIZE INDEX builds them.
ALTER TABLE pharos.otel_logs ADD INDEX IF NOT EXISTS words_of_body lower(Body) TYPE text(tokenizer = splitByNonAlpha);
ALTER TABLE pharos.telemetry_events ADD INDEX IF NOT EXISTS words_of_log
    if(type = 'log', lower(concat(name, ' ', title, ' ', details)), '') TYPE text(tokenizer = splitByNonAlpha);

-- Names of metrics by day. `Series` identifies a time series: readers need not hash its maps.
ALTER TABLE pharos.otel_metrics_gauge
    ADD COLUMN IF NOT EXISTS Series UInt64
        MATERIALIZED cityHash64(ServiceName, ScopeName, ResourceAttributes, Attributes) CODEC(ZSTD(1)),
    ADD PROJECTION IF NOT EXISTS names_by_day
    (
        SELECT
            EnvironmentId, toDate(TimeUnix), MetricName, ServiceName,
            min(TimeUnix), max(TimeUnix), anyLast(MetricUnit), anyLast(MetricDescription)
        GROUP BY EnvironmentId, toDate(TimeUnix), MetricName, ServiceName
    );
ALTER TABLE pharos.otel_metrics_gauge MATERIALIZE PROJECTION names_by_day;
ALTER TABLE pharos.otel_metrics_sum
    ADD COLUMN IF NOT EXISTS Series UInt64
        MATERIALIZED cityHash64(ServiceName, ScopeName, ResourceAttributes, Attributes) CODEC(ZSTD(1)),
    ADD PROJECTION IF NOT EXISTS names_by_day
    (
        SELECT
            EnvironmentId, toDate(TimeUnix), MetricName, ServiceName,
            min(TimeUnix), max(TimeUnix), anyLast(MetricUnit), anyLast(MetricDescription), anyLast(AggregationTemporality),
            anyLast(IsMonotonic)
        GROUP BY EnvironmentId, toDate(TimeUnix), MetricName, ServiceName
    );
ALTER TABLE pharos.otel_metrics_sum MATERIALIZE PROJECTION names_by_day;
ALTER TABLE pharos.otel_metrics_histogram
    ADD COLUMN IF NOT EXISTS Series UInt64
        MATERIALIZED cityHash64(ServiceName, ScopeName, ResourceAttributes, Attributes) CODEC(ZSTD(1)),
    ADD PROJECTION IF NOT EXISTS names_by_day
    (
        SELECT
            EnvironmentId, toDate(TimeUnix), MetricName, ServiceName,
            min(TimeUnix), max(TimeUnix), anyLast(MetricUnit), anyLast(MetricDescription), anyLast(AggregationTemporality)
        GROUP BY EnvironmentId, toDate(TimeUnix), MetricName, ServiceName
    );
ALTER TABLE pharos.otel_metrics_histogram MATERIALIZE PROJECTION names_by_day;
ALTER TABLE pharos.otel_metrics_exponential_histogram
    ADD COLUMN IF NOT EXISTS Series UInt64
        MATERIALIZED cityHash64(ServiceName, ScopeName, ResourceAttributes, Attributes) CODEC(ZSTD(1)),
    ADD PROJECTION IF NOT EXISTS names_by_day
    (
        SELECT
            EnvironmentId, toDate(TimeUnix), MetricName, ServiceName,
            min(TimeUnix), max(TimeUnix), anyLast(MetricUnit), anyLast(MetricDescription), anyLast(AggregationTemporality)
        GROUP BY EnvironmentId, toDate(TimeUnix), MetricName, ServiceName
    );
ALTER TABLE pharos.otel_metrics_exponential_histogram MATERIALIZE PROJECTION names_by_day;
ALTER TABLE pharos.otel_metrics_summary
    ADD COLUMN IF NOT EXISTS Series UInt64
        MATERIALIZED cityHash64(ServiceName, ScopeName, ResourceAttributes, Attributes) CODEC(ZSTD(1)),
    ADD PROJECTION IF NOT EXISTS names_by_day
    (
        SELECT
            EnvironmentId, toDate(TimeUnix), MetricName, ServiceName,
            min(TimeUnix), max(TimeUnix), anyLast(MetricUnit), anyLast(MetricDescription)
        GROUP BY EnvironmentId, toDate(TimeUnix), MetricName, ServiceName
    );
ALTER TABLE pharos.otel_metrics_summary MATERIALIZE PROJECTION names_by_day;
