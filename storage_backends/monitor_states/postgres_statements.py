"""What the Postgres adapter says; each list of values is one parameter a column."""

from storage_backends.monitor_states.rows import (
    HEARTBEAT_COLUMNS,
    HEARTBEAT_TABLES,
    OPEN_RUN,
    PRUNABLE,
    RUN_COLUMNS,
    RUN_TIMES,
)

LOCK = """
SELECT FROM heartbeat_states WHERE heartbeat_id = ANY($1::int[]) ORDER BY heartbeat_id FOR UPDATE
"""
READ = f"SELECT {HEARTBEAT_COLUMNS} FROM {HEARTBEAT_TABLES} WHERE s.heartbeat_id = ANY($1::int[])"
# Without a lock: who changes one first is told by its version.
READ_DUE = f"""
SELECT {HEARTBEAT_COLUMNS} FROM {HEARTBEAT_TABLES} WHERE s.deadline_ms <= $1 ORDER BY s.deadline_ms LIMIT $2
"""
READ_RUNS = f"""
SELECT {RUN_COLUMNS} FROM heartbeat_runs
JOIN unnest($1::int[], $2::text[]) AS wanted (heartbeat, run) ON heartbeat_id = heartbeat AND run_id = run
"""
READ_ALL_RUNS = f"SELECT {RUN_TIMES} FROM heartbeat_runs WHERE heartbeat_id = $1"
READ_OPEN_RUNS = (
    f"SELECT {RUN_COLUMNS} FROM heartbeat_runs WHERE heartbeat_id = ANY($1::int[]) AND {OPEN_RUN}"
)
WRITE_STATES = """
UPDATE heartbeat_states AS s SET state = n.state, since_ms = n.since_ms, due_ms = n.due_ms,
    deadline_ms = n.deadline_ms, last_signal_ms = n.last_signal_ms, last_success_ms = n.last_success_ms,
    last_end_ms = n.last_end_ms, failures_in_row = n.failures_in_row, open_runs = n.open_runs,
    oldest_start_ms = n.oldest_start_ms, missed_ms = n.missed_ms, pings = n.pings, version = s.version + 1
FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::int[],
    $9::int[], $10::bigint[], $11::text[], $12::text[], $13::int[], $14::int[])
    AS n (state, since_ms, due_ms, deadline_ms, last_signal_ms, last_success_ms, last_end_ms, failures_in_row,
        open_runs, oldest_start_ms, missed_ms, pings, heartbeat_id, version)
WHERE s.heartbeat_id = n.heartbeat_id AND s.version = n.version
RETURNING s.heartbeat_id
"""
WRITE_RUNS = f"""
INSERT INTO heartbeat_runs ({RUN_COLUMNS})
SELECT * FROM unnest($1::int[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
    $8::int[], $9::text[])
ON CONFLICT (heartbeat_id, run_id) DO UPDATE SET first_ms = excluded.first_ms, started_ms = excluded.started_ms,
    succeeded_ms = excluded.succeeded_ms, failed_ms = excluded.failed_ms, timed_out_ms = excluded.timed_out_ms,
    exit_status = excluded.exit_status, output = excluded.output
"""
MARK_UNKNOWN = """
UPDATE heartbeat_states SET state = 'unknown', since_ms = $1, version = version + 1
WHERE deadline_ms > $2 AND deadline_ms <= $3 AND state NOT IN ('unknown', 'down')
"""
WRITE_PROGRESS = """
INSERT INTO monitor_progress AS p (topic, partition, applied_through_ms) VALUES ($1, $2, $3)
ON CONFLICT (topic, partition)
DO UPDATE SET applied_through_ms = greatest(p.applied_through_ms, excluded.applied_through_ms)
"""
READ_PROGRESS = "SELECT partition, applied_through_ms FROM monitor_progress WHERE topic = $1"
FORGET_PROGRESS = "DELETE FROM monitor_progress WHERE topic = $1 AND partition <> ALL($2::int[])"
_KNOWN_QUEUE = """
SELECT 1 FROM queues JOIN environments ON environments.id = queues.environment_id
WHERE queues.id = $1 AND environments.public_id =
"""
WRITE_SNAPSHOT = f"""
INSERT INTO queue_states AS q (queue_id, snapshot_id, observed_us, received_ms, pending, delayed, reserved, failed,
    oldest_wait_seconds)
SELECT $1::int, $2::text, $3::bigint, $4::bigint, $5::bigint, $6::bigint, $7::bigint, $8::bigint, $9::bigint
WHERE EXISTS ({_KNOWN_QUEUE} $10)
ON CONFLICT (queue_id) DO UPDATE SET snapshot_id = excluded.snapshot_id, observed_us = excluded.observed_us,
    received_ms = excluded.received_ms, pending = excluded.pending, delayed = excluded.delayed,
    reserved = excluded.reserved, failed = excluded.failed, oldest_wait_seconds = excluded.oldest_wait_seconds
WHERE (excluded.observed_us, excluded.snapshot_id) > (q.observed_us, q.snapshot_id)
"""
WRITE_WORKER = f"""
INSERT INTO queue_workers AS w (queue_id, worker_id, sequence, status, job_id, received_ms)
SELECT $1::int, $2::text, $3::bigint, $4::text, $5::text, $6::bigint
WHERE EXISTS ({_KNOWN_QUEUE} $7)
ON CONFLICT (queue_id, worker_id) DO UPDATE SET sequence = excluded.sequence, status = excluded.status,
    job_id = excluded.job_id, received_ms = excluded.received_ms
WHERE excluded.sequence > w.sequence
"""
READ_PRUNABLE = f"{PRUNABLE} $1 LIMIT $2"
DELETE_RUNS = """
DELETE FROM heartbeat_runs USING unnest($1::int[], $2::text[]) AS old (heartbeat, run)
WHERE heartbeat_id = heartbeat AND run_id = run
"""
