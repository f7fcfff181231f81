-- Statements of `postgres.py`. A list of values is one array parameter per column. The columns of heartbeats and runs are in
-- the order in which `rows.py` reads them.

-- name: lock_heartbeats
-- Lock these heartbeats, in the order of their IDs.
SELECT FROM heartbeat_states WHERE heartbeat_id = ANY($1::int[]) ORDER BY heartbeat_id FOR UPDATE;

-- name: read_heartbeats
-- What are the settings and the states of these heartbeats?
SELECT
    s.heartbeat_id, e.public_id, h.period_seconds, h.cron, h.timezone, h.grace_seconds, h.max_runtime_seconds,
    h.failures_before_down, h.paused, s.state, s.since_ms, s.due_ms, s.deadline_ms, s.last_signal_ms,
    s.last_success_ms, s.last_end_ms, s.failures_in_row, s.open_runs, s.oldest_start_ms, s.version,
    s.judged_from_ms, s.missed_ms, s.pings, h.name, s.alerted, s.blind_from_ms, s.blind_to_ms, s.blind_ms
FROM heartbeat_states AS s
JOIN heartbeats AS h ON h.id = s.heartbeat_id
JOIN environments AS e ON e.id = h.environment_id
WHERE s.heartbeat_id = ANY($1::int[]);

-- name: read_due_heartbeats
-- Which heartbeats have a deadline that has passed, the earliest first? Without a lock: `write_states` leaves out those whose
-- version has changed since.
SELECT
    s.heartbeat_id, e.public_id, h.period_seconds, h.cron, h.timezone, h.grace_seconds, h.max_runtime_seconds,
    h.failures_before_down, h.paused, s.state, s.since_ms, s.due_ms, s.deadline_ms, s.last_signal_ms,
    s.last_success_ms, s.last_end_ms, s.failures_in_row, s.open_runs, s.oldest_start_ms, s.version,
    s.judged_from_ms, s.missed_ms, s.pings, h.name, s.alerted, s.blind_from_ms, s.blind_to_ms, s.blind_ms
FROM heartbeat_states AS s
JOIN heartbeats AS h ON h.id = s.heartbeat_id
JOIN environments AS e ON e.id = h.environment_id
WHERE s.deadline_ms <= $1
ORDER BY s.deadline_ms
LIMIT $2;

-- name: read_runs
-- What are the stored values of these runs, each identified by its heartbeat and its ID?
SELECT
    heartbeat_id, run_id, first_ms, started_ms, succeeded_ms, failed_ms, timed_out_ms, exit_status, output
FROM heartbeat_runs
JOIN unnest($1::int[], $2::text[]) AS requested (heartbeat, run) ON heartbeat_id = heartbeat AND run_id = run;

-- name: read_run_times
-- What are the times of all runs of a heartbeat? Without exit status and output, which no count depends on.
SELECT heartbeat_id, run_id, first_ms, started_ms, succeeded_ms, failed_ms, timed_out_ms
FROM heartbeat_runs
WHERE heartbeat_id = $1;

-- name: read_open_runs
-- Which runs of these heartbeats have started and not ended?
SELECT
    heartbeat_id, run_id, first_ms, started_ms, succeeded_ms, failed_ms, timed_out_ms, exit_status, output
FROM heartbeat_runs
WHERE heartbeat_id = ANY($1::int[])
    AND started_ms IS NOT NULL AND succeeded_ms IS NULL AND failed_ms IS NULL AND timed_out_ms IS NULL;

-- name: read_names
-- Which heartbeats have these names, each with its environment?
SELECT e.public_id, h.name, h.id
FROM heartbeats AS h
JOIN environments AS e ON e.id = h.environment_id
JOIN unnest($1::text[], $2::text[]) AS requested (environment, name) ON e.public_id = environment AND h.name = requested.name;

-- name: create_heartbeat
-- Create the heartbeat $2 in the environment $1 with its state, unless the name is taken or the environment has $7 already.
-- Note that a ping has created it: the control plane publishes its name.
WITH created AS (
    INSERT INTO heartbeats (environment_id, name, created_at, period_seconds, timezone, grace_seconds,
        max_runtime_seconds, failures_before_down, paused)
    SELECT e.id, $2::text, $3::timestamptz, $4::int, 'UTC', $5::int, $6::int, 1, false
    FROM environments AS e
    WHERE e.public_id = $1::text AND (SELECT count(*) FROM heartbeats AS h WHERE h.environment_id = e.id) < $7::int
    ON CONFLICT (environment_id, name) DO NOTHING
    RETURNING id
), state AS (
    INSERT INTO heartbeat_states (heartbeat_id, state, since_ms, failures_in_row, open_runs, version)
    SELECT id, 'new', $8::bigint, 0, 0, 0 FROM created
)
INSERT INTO created_heartbeats (heartbeat_id, created_ms) SELECT id, $8::bigint FROM created;

-- name: claim_creating_pings
-- Note that these pings are applied, and return those that were not. Waits for another consumer that applies one of them.
INSERT INTO creating_pings (ping_id, applied_ms) SELECT unnest($1::text[]), $2::bigint ON CONFLICT DO NOTHING
RETURNING ping_id;

-- name: read_creating_pings
-- Which of these pings are applied, and to which heartbeats that still exist?
SELECT p.ping_id, h.id
FROM creating_pings AS p
LEFT JOIN heartbeats AS h ON h.id = p.heartbeat_id
WHERE p.ping_id = ANY($1::text[]);

-- name: note_heartbeats_of_pings
-- Note to which heartbeats these pings are applied.
UPDATE creating_pings AS p SET heartbeat_id = n.heartbeat
FROM unnest($1::text[], $2::int[]) AS n (ping, heartbeat)
WHERE p.ping_id = n.ping;

-- name: delete_creating_pings
-- Forget up to $2 pings that were applied before $1.
DELETE FROM creating_pings WHERE ping_id IN (
    SELECT ping_id FROM creating_pings WHERE applied_ms < $1 LIMIT $2
);

-- name: write_log_entry
-- Add an entry to the log of a heartbeat of the environment $6.
INSERT INTO heartbeat_log_entries (heartbeat_id, entry_id, run_id, received_ms, text)
SELECT $1::int, $2::text, $3::text, $4::bigint, $5::text
WHERE EXISTS (
    SELECT 1 FROM heartbeats JOIN environments ON environments.id = heartbeats.environment_id
    WHERE heartbeats.id = $1 AND environments.public_id = $6::text
)
ON CONFLICT DO NOTHING;

-- name: trim_log
-- Remove the log entries of heartbeat $1 beyond the newest $2.
DELETE FROM heartbeat_log_entries AS l USING (
    SELECT received_ms, entry_id FROM heartbeat_log_entries WHERE heartbeat_id = $1
    ORDER BY received_ms DESC, entry_id DESC LIMIT 1 OFFSET $2::int
) AS newest
WHERE l.heartbeat_id = $1 AND (l.received_ms, l.entry_id) <= (newest.received_ms, newest.entry_id);

-- name: delete_log_entries
-- Remove up to $2 log entries that were received before $1.
DELETE FROM heartbeat_log_entries WHERE (heartbeat_id, entry_id) IN (
    SELECT heartbeat_id, entry_id FROM heartbeat_log_entries WHERE received_ms < $1 LIMIT $2
);

-- name: read_prunable_runs
-- Which runs whose first signal is older than $1 may be removed? Not the open ones that still have a time limit, nor the
-- newest success: the failures in a row are counted from it.
SELECT r.heartbeat_id, run_id, first_ms, started_ms, succeeded_ms, failed_ms, timed_out_ms
FROM heartbeat_runs AS r
JOIN heartbeat_states AS s ON s.heartbeat_id = r.heartbeat_id
WHERE NOT (
        started_ms IS NOT NULL AND succeeded_ms IS NULL AND failed_ms IS NULL AND timed_out_ms IS NULL
        AND started_ms > coalesce(s.judged_from_ms, -1)
    )
    AND NOT (succeeded_ms IS NOT NULL AND succeeded_ms >= coalesce(s.last_success_ms, 0))
    AND first_ms < $1
LIMIT $2;

-- name: write_states
-- Write these states, except those of heartbeats whose version has changed since it was read. Returns the IDs that were
-- written.
UPDATE heartbeat_states AS s SET state = n.state, since_ms = n.since_ms, due_ms = n.due_ms,
    deadline_ms = n.deadline_ms, last_signal_ms = n.last_signal_ms, last_success_ms = n.last_success_ms,
    last_end_ms = n.last_end_ms, failures_in_row = n.failures_in_row, open_runs = n.open_runs,
    oldest_start_ms = n.oldest_start_ms, missed_ms = n.missed_ms, pings = n.pings, alerted = n.alerted,
    version = s.version + 1
FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::int[],
    $9::int[], $10::bigint[], $11::text[], $12::text[], $13::text[], $14::int[], $15::int[])
    AS n (state, since_ms, due_ms, deadline_ms, last_signal_ms, last_success_ms, last_end_ms, failures_in_row,
        open_runs, oldest_start_ms, missed_ms, pings, alerted, heartbeat_id, version)
WHERE s.heartbeat_id = n.heartbeat_id AND s.version = n.version
RETURNING s.heartbeat_id;

-- name: write_runs
-- Add these runs, or replace their stored values.
INSERT INTO heartbeat_runs
    (heartbeat_id, run_id, first_ms, started_ms, succeeded_ms, failed_ms, timed_out_ms, exit_status, output)
SELECT * FROM unnest($1::int[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
    $8::int[], $9::text[])
ON CONFLICT (heartbeat_id, run_id) DO UPDATE SET first_ms = excluded.first_ms, started_ms = excluded.started_ms,
    succeeded_ms = excluded.succeeded_ms, failed_ms = excluded.failed_ms, timed_out_ms = excluded.timed_out_ms,
    exit_status = excluded.exit_status, output = excluded.output;

-- name: delete_runs
-- Remove these runs, each named by its heartbeat and its ID.
DELETE FROM heartbeat_runs USING unnest($1::int[], $2::text[]) AS old (heartbeat, run)
WHERE heartbeat_id = heartbeat AND run_id = run;

-- name: write_alerts
-- Add these alert events of heartbeats.
INSERT INTO alert_events (account_id, project_id, environment_id, kind, subject, state, at_ms, facts)
SELECT p.account_id, p.id, e.id, n.kind, n.subject, n.state, n.at_ms, n.facts
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::int[])
    AS n (kind, subject, state, at_ms, facts, heartbeat_id)
JOIN heartbeats AS h ON h.id = n.heartbeat_id
JOIN environments AS e ON e.id = h.environment_id
JOIN projects AS p ON p.id = e.project_id
ORDER BY n.heartbeat_id;

-- name: mark_unknown
-- Set heartbeats to unknown that are not down and have a deadline after $2 and not later than $3.
UPDATE heartbeat_states SET state = 'unknown', since_ms = $1, version = version + 1
WHERE deadline_ms > $2 AND deadline_ms <= $3 AND state NOT IN ('unknown', 'down');

-- name: add_clock
-- Start this clock, unless it runs.
INSERT INTO monitor_progress (topic, partition, applied_through_ms) VALUES ($1, 0, $2) ON CONFLICT DO NOTHING;

-- name: lock_clocks
-- Until when did these clocks run? Locks them in the order of their names.
SELECT topic, applied_through_ms FROM monitor_progress WHERE topic = ANY($1::text[]) ORDER BY topic FOR UPDATE;

-- name: lock_all_heartbeats
-- Lock all heartbeats that a gap concerns, in the order of their IDs.
SELECT FROM heartbeat_states WHERE state NOT IN ('new', 'paused') ORDER BY heartbeat_id FOR UPDATE;

-- name: move_past_gap
-- Move the deadlines of all heartbeats by the gap from $1 to $2, to a grace time after its end at least; those that the gap may
-- have hidden a run of become unknown. A signal from after the gap has ended it for its heartbeat.
UPDATE heartbeat_states AS s SET
    blind_ms = $2::bigint - $1::bigint + CASE WHEN s.last_signal_ms < s.blind_to_ms THEN s.blind_ms ELSE 0 END,
    blind_from_ms = CASE WHEN s.last_signal_ms < s.blind_to_ms THEN s.blind_from_ms ELSE $1 END,
    blind_to_ms = $2,
    since_ms = CASE
        WHEN s.deadline_ms > $1 AND s.deadline_ms <= $2 + h.grace AND s.state NOT IN ('down', 'unknown')
        THEN $2 ELSE s.since_ms END,
    state = CASE
        WHEN s.deadline_ms > $1 AND s.deadline_ms <= $2 + h.grace AND s.state <> 'down'
        THEN 'unknown' ELSE s.state END,
    due_ms = CASE
        WHEN s.deadline_ms > $1 AND s.due_ms IS NOT NULL
        THEN greatest(s.deadline_ms + $2 - $1, $2 + h.grace) - CASE WHEN s.due_ms < s.deadline_ms THEN h.grace ELSE 0 END
        ELSE s.due_ms END,
    deadline_ms = CASE
        WHEN s.deadline_ms > $1 THEN greatest(s.deadline_ms + $2 - $1, $2 + h.grace)
        ELSE s.deadline_ms END,
    version = s.version + 1
FROM (SELECT id, 1000::bigint * grace_seconds AS grace FROM heartbeats) AS h
WHERE h.id = s.heartbeat_id AND s.state NOT IN ('new', 'paused') AND coalesce(s.last_signal_ms, 0) < $2;

-- name: write_blind_alert
-- Add the alert event that monitoring was blind, for the oldest account, which runs the installation.
INSERT INTO alert_events (account_id, kind, subject, state, at_ms, facts)
SELECT min(id), 'platform.blind', 'blind', 'info', $1::bigint, $2::text FROM accounts HAVING min(id) IS NOT NULL;

-- name: read_progress
-- Up to which time is each partition of a topic applied?
SELECT partition, applied_through_ms FROM monitor_progress WHERE topic = $1;

-- name: write_progress
-- Store up to which time a partition is applied; an earlier time than the stored one changes nothing.
INSERT INTO monitor_progress AS p (topic, partition, applied_through_ms) VALUES ($1, $2, $3)
ON CONFLICT (topic, partition)
DO UPDATE SET applied_through_ms = greatest(p.applied_through_ms, excluded.applied_through_ms);

-- name: delete_progress
-- Remove the progress of all partitions of a topic except these.
DELETE FROM monitor_progress WHERE topic = $1 AND partition <> ALL($2::int[]);

-- name: write_snapshot
-- Store the snapshot of a queue if it is newer than the stored one and the queue belongs to the environment $10.
INSERT INTO queue_states AS q (queue_id, snapshot_id, observed_us, received_ms, pending, delayed, reserved, failed,
    oldest_wait_seconds)
SELECT $1::int, $2::text, $3::bigint, $4::bigint, $5::bigint, $6::bigint, $7::bigint, $8::bigint, $9::bigint
WHERE EXISTS (
    SELECT 1 FROM queues JOIN environments ON environments.id = queues.environment_id
    WHERE queues.id = $1 AND environments.public_id = $10
)
ON CONFLICT (queue_id) DO UPDATE SET snapshot_id = excluded.snapshot_id, observed_us = excluded.observed_us,
    received_ms = excluded.received_ms, pending = excluded.pending, delayed = excluded.delayed,
    reserved = excluded.reserved, failed = excluded.failed, oldest_wait_seconds = excluded.oldest_wait_seconds
WHERE (excluded.observed_us, excluded.snapshot_id) > (q.observed_us, q.snapshot_id);

-- name: write_worker
-- Store the update of a worker if its sequence is above the stored one and the queue belongs to the environment $7.
INSERT INTO queue_workers AS w (queue_id, worker_id, sequence, status, job_id, received_ms)
SELECT $1::int, $2::text, $3::bigint, $4::text, $5::text, $6::bigint
WHERE EXISTS (
    SELECT 1 FROM queues JOIN environments ON environments.id = queues.environment_id
    WHERE queues.id = $1 AND environments.public_id = $7
)
ON CONFLICT (queue_id, worker_id) DO UPDATE SET sequence = excluded.sequence, status = excluded.status,
    job_id = excluded.job_id, received_ms = excluded.received_ms
WHERE excluded.sequence > w.sequence;

-- name: forget_workers
-- Remove the workers of queue $1 beyond the $2 that reported last.
DELETE FROM queue_workers AS w USING (
    SELECT received_ms, worker_id FROM queue_workers WHERE queue_id = $1
    ORDER BY received_ms DESC, worker_id DESC LIMIT 1 OFFSET $2::int
) AS newest
WHERE w.queue_id = $1 AND (w.received_ms, w.worker_id) <= (newest.received_ms, newest.worker_id);
