-- Statements of `telemetry_rows.py`. Each makes `rows` rows of one day that begins at `start_s`, from number `first` on, at even
-- distances: 50 routes, 8 services, log-normal durations with a median of 20 ms.

-- name: events
-- Telemetry events, four of a trace: requests, queries, logs, metrics, jobs and exceptions.
INSERT INTO pharos.telemetry_events
(
    account_id, project_id, environment_id, receipt_id, batch_id, position, received_at, timestamp, type, id, severity, name, title,
    trace_id, span_id, parent_span_id, route, url, service, status_code, duration_ms, affected_users, details, attributes, payload,
    log, log_offset
)
SELECT
    'acc_1', 'prj_1', {environment:String}, concat('rcp_', hex(sipHash64(intDiv(number, 100)))), hex(sipHash64(intDiv(number, 100), 1)),
    number % 100, toDateTime64(at, 3, 'UTC') + 1, at, kind, lower(hex(sipHash128(number, 3))), if(bad, 'error', 'info'),
    multiIf(
        kind = 'request', concat('GET /r/', toString(route_number)), kind = 'query', 'SELECT',
        kind = 'job', concat('Job', toString(route_number % 20)), kind = 'exception', concat('Error', toString(route_number % 30)),
        kind = 'metric', concat('metric.', toString(route_number % 20)), ''),
    multiIf(
        kind = 'query', concat('SELECT * FROM t', toString(route_number), ' WHERE id = $1'),
        kind = 'exception', concat('it broke at item ', toString(random % 100000), ' of order'),
        kind = 'log', concat('User ', toString(random % 50000), ' did action ', toString(route_number), ' with answer ', hex(random)),
        ''),
    lower(hex(sipHash128(intDiv(number, 4), 7))), lower(hex(sipHash64(number, 8))),
    if(kind = 'request', '', lower(hex(sipHash64(intDiv(number, 4) * 4, 8)))), concat('/r/', toString(route_number)),
    if(kind = 'request', concat('https://shop.example/r/', toString(route_number), '/', toString(random % 1000)), ''),
    concat('svc-', toString(route_number % 8)), if(kind = 'request', if(bad, 500, 200), NULL),
    if(kind IN ('request', 'query', 'job'),
        exp(3 + sqrt(-2 * log((random % 999983 + 1) / 999984)) * cos(2 * pi() * ((other_random % 999983) / 999983))), NULL),
    if(kind = 'exception', random % 5, NULL),
    if(kind = 'exception', concat(
        'Traceback (most recent call last):\n  File "app/main.py", line ', toString(random % 300), ', in handle\n    work()\n',
        '  File "app/mod', toString(route_number), '.py", line ', toString(random % 200), ', in fn', toString(route_number),
        '\n    raise X\nError'), ''),
    concat('{"http.request.method":"GET","region":"', if(random % 2 = 0, 'eu-north', 'eu-west'), '","service.version":"v1"}'),
    if(kind = 'metric', concat('{"value":', toString(random % 1000), '}'), ''),
    concat('ingest/abc/', toString(number % 4)), intDiv(number, 400)
FROM
(
    SELECT
        number, sipHash64(number, 1) AS random, sipHash64(number, 2) AS other_random, other_random % 50 AS route_number,
        sipHash64(number, 5) % 100 AS share, (sipHash64(number, 6) % 100) < 2 AS bad,
        multiIf(
            number % 4 = 0, 'request', share < 45, 'query', share < 55, 'request', share < 62, 'job', share < 65, 'exception',
            share < 90, 'log', 'metric') AS kind,
        fromUnixTimestamp64Micro(
            toInt64({start_s:UInt32}) * 1000000 + toInt64(number - {first:UInt64}) * intDiv(86400000000, {rows:UInt64}), 'UTC') AS at
    FROM numbers({first:UInt64}, {rows:UInt64})
)
SETTINGS max_insert_threads = 1, max_threads = 2, min_insert_block_size_rows = 500000;

-- name: spans
-- Spans, ten of a trace; one in a hundred has failed with an exception.
INSERT INTO pharos.otel_traces
(
    Timestamp, TraceId, SpanId, ParentSpanId, SpanName, SpanKind, ServiceName, ResourceAttributes, SpanAttributes, Duration, StatusCode,
    `Events.Timestamp`, `Events.Name`, `Events.Attributes`, EnvironmentId, ReceivedAt, log, log_offset
)
SELECT
    at, lower(hex(sipHash128(trace, 7))), lower(hex(sipHash64(number, 8))),
    if(place = 0, '', lower(hex(sipHash64(number - 1 - (random % place), 8)))),
    concat(if(place = 0, 'GET /r/', 'op '), toString(route_number)), multiIf(place = 0, 'Server', place < 4, 'Internal', 'Client'),
    concat('api-', toString(trace % 8)),
    map('service.name', concat('api-', toString(trace % 8)), 'service.version', 'v1', 'host.name', concat('host-', toString(random % 20))),
    map('http.request.method', 'GET', 'http.route', concat('/r/', toString(route_number)), 'user.id', toString(random % 100000)),
    toUInt64(1e6 * exp(3 + sqrt(-2 * log((random % 999983 + 1) / 999984)) * cos(2 * pi() * ((other_random % 999983) / 999983)))),
    if(bad, 'Error', 'Unset'), if(bad, [at], []), if(bad, ['exception'], []),
    if(bad, [map(
        'exception.type', concat('E', toString(route_number)), 'exception.message', concat('failed for ', toString(random % 100000)),
        'exception.stacktrace', 'Traceback (most recent call last):\n  File "app/main.py", line 12, in handle\n    work()\nE')], []),
    {environment:String}, at + 2, concat('otlp/abc/', toString(number % 4)), intDiv(number, 400)
FROM
(
    SELECT
        number, intDiv(number, 10) AS trace, number % 10 AS place, sipHash64(number, 1) AS random, sipHash64(number, 2) AS other_random,
        other_random % 50 AS route_number, (sipHash64(number, 6) % 100) < 1 AS bad,
        fromUnixTimestamp64Nano(
            toInt64({start_s:UInt32}) * 1000000000
            + toInt64(trace * 10 - {first:UInt64}) * intDiv(86400000000000, {rows:UInt64}) + toInt64(place) * 3000000, 'UTC') AS at
    FROM numbers({first:UInt64}, {rows:UInt64})
)
SETTINGS max_insert_threads = 1, max_threads = 2, min_insert_block_size_rows = 500000;

-- name: records
-- OTLP log records; one in a hundred is an error that says `payment declined`, half of these are exceptions.
INSERT INTO pharos.otel_logs
(
    Timestamp, TraceId, SpanId, SeverityText, SeverityNumber, ServiceName, Body, ResourceAttributes, LogAttributes, EnvironmentId,
    ReceivedAt, log, log_offset
)
SELECT
    at, if(random % 3 = 0, lower(hex(sipHash128(intDiv(number, 10), 7))), ''), if(random % 3 = 0, lower(hex(sipHash64(number, 8))), ''),
    multiIf(bad, 'ERROR', random % 10 = 0, 'WARN', 'INFO'), multiIf(bad, 17, random % 10 = 0, 13, 9),
    concat('api-', toString(intDiv(number, 10) % 8)),
    concat('User ', toString(random % 50000), ' did action ', toString(route_number), ' in the shop and got answer ', lower(hex(random)),
        if(bad, ' payment declined by the provider', '')),
    map('service.name', concat('api-', toString(intDiv(number, 10) % 8)), 'host.name', concat('host-', toString(random % 20))),
    if(bad AND random % 2 = 0,
        map('exception.type', concat('L', toString(route_number)), 'exception.message', concat('log failed for ', toString(random % 100000))),
        map('code.function', concat('f', toString(route_number)))),
    {environment:String}, at + 2, concat('otlp/abc/', toString(number % 4)), intDiv(number, 400)
FROM
(
    SELECT
        number, sipHash64(number, 1) AS random, sipHash64(number, 2) % 50 AS route_number, (sipHash64(number, 6) % 100) < 1 AS bad,
        fromUnixTimestamp64Nano(
            toInt64({start_s:UInt32}) * 1000000000 + toInt64(number - {first:UInt64}) * intDiv(86400000000000, {rows:UInt64}), 'UTC') AS at
    FROM numbers({first:UInt64}, {rows:UInt64})
)
SETTINGS max_insert_threads = 1, max_threads = 2, min_insert_block_size_rows = 500000;

-- name: points
-- Data points of cumulative counters: 100 metrics, each with 400 series.
INSERT INTO pharos.otel_metrics_sum
(
    ResourceAttributes, ServiceName, MetricName, MetricUnit, Attributes, StartTimeUnix, TimeUnix, Value, AggregationTemporality,
    IsMonotonic, EnvironmentId, ReceivedAt, log, log_offset
)
SELECT
    map('service.name', concat('api-', toString(series % 8)), 'host.name', concat('host-', toString(intDiv(series, 8) % 5))),
    concat('api-', toString(series % 8)), concat('metric.', toString(number % 100)), '1',
    map('route', concat('/r/', toString(intDiv(series, 40) % 10))), toDateTime64({start_s:UInt32}, 9, 'UTC'), at,
    toFloat64(intDiv(number - {first:UInt64}, 40000)) * 3, 2, true, {environment:String}, at + 2,
    concat('otlp/abc/', toString(number % 4)), intDiv(number, 400)
FROM
(
    SELECT
        number, intDiv(number, 100) AS series,
        fromUnixTimestamp64Nano(
            toInt64({start_s:UInt32}) * 1000000000 + toInt64(number - {first:UInt64}) * intDiv(86400000000000, {rows:UInt64}), 'UTC') AS at
    FROM numbers({first:UInt64}, {rows:UInt64})
)
SETTINGS max_insert_threads = 1, max_threads = 2, min_insert_block_size_rows = 500000;

-- name: samples
-- The newest trace with an error, and the newest group of exceptions.
SELECT
    (SELECT argMax(TraceId, Timestamp) FROM pharos.otel_traces WHERE EnvironmentId = {environment:String} AND StatusCode = 'Error'
        AND toDate(Timestamp) >= toDate(toDateTime({since_s:UInt32}, 'UTC'))) AS trace,
    (SELECT lower(hex(argMax(group_id, timestamp))) FROM pharos.exceptions WHERE environment_id = {environment:String}
        AND toDate(timestamp) >= toDate(toDateTime({since_s:UInt32}, 'UTC'))) AS exception_group;
