-- Statements of `sqlite.py`. A list of values is one parameter, a JSON array. The columns of heartbeats and runs are in the
-- order in which `rows.py` reads them.

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
WHERE s.heartbeat_id IN (SELECT value FROM json_each(?));

-- name: read_due_heartbeats
-- Which heartbeats have a deadline that has passed, the earliest first?
SELECT
    s.heartbeat_id, e.public_id, h.period_seconds, h.cron, h.timezone, h.grace_seconds, h.max_runtime_seconds,
    h.failures_before_down, h.paused, s.state, s.since_ms, s.due_ms, s.deadline_ms, s.last_signal_ms,
    s.last_success_ms, s.last_end_ms, s.failures_in_row, s.open_runs, s.oldest_start_ms, s.version,
    s.judged_from_ms, s.missed_ms, s.pings, h.name, s.alerted, s.blind_from_ms, s.blind_to_ms, s.blind_ms
FROM heartbeat_states AS s
JOIN heartbeats AS h ON h.id = s.heartbeat_id
JOIN environments AS e ON e.id = h.environment_id
WHERE s.deadline_ms <= ?
ORDER BY s.deadline_ms
LIMIT ?;

-- name: read_runs
-- What are the stored values of these runs, each identified by [heartbeat, ID]?
SELECT
    heartbeat_id, run_id, first_ms, started_ms, succeeded_ms, failed_ms, timed_out_ms, exit_status, output
FROM heartbeat_runs
WHERE (heartbeat_id, run_id) IN
    (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?));

-- name: read_run_times
-- What are the times of all runs of a heartbeat? Without exit status and output, which no count depends on.
SELECT heartbeat_id, run_id, first_ms, started_ms, succeeded_ms, failed_ms, timed_out_ms
FROM heartbeat_runs
WHERE heartbeat_id = ?;

-- name: read_open_runs
-- Which runs of these heartbeats have started and not ended?
SELECT
    heartbeat_id, run_id, first_ms, started_ms, succeeded_ms, failed_ms, timed_out_ms, exit_status, output
FROM heartbeat_runs
WHERE heartbeat_id IN (SELECT value FROM json_each(?))
    AND started_ms IS NOT NULL AND succeeded_ms IS NULL AND failed_ms IS NULL AND timed_out_ms IS NULL;

-- name: read_names
-- Which heartbeats have these names, each given as [environment, name]?
SELECT e.public_id, h.name, h.id
FROM heartbeats AS h
JOIN environments AS e ON e.id = h.environment_id
WHERE (e.public_id, h.name) IN
    (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?));

-- name: create_heartbeat
-- Create the heartbeat ?2 in the environment ?1, unless the name is taken or the environment has ?7 already.
INSERT INTO heartbeats (environment_id, name, created_at, period_seconds, timezone, grace_seconds, max_runtime_seconds,
    failures_before_down, paused)
SELECT e.id, ?2, ?3, ?4, 'UTC', ?5, ?6, 1, 0
FROM environments AS e
WHERE e.public_id = ?1 AND (SELECT count(*) FROM heartbeats AS h WHERE h.environment_id = e.id) < ?7
ON CONFLICT (environment_id, name) DO NOTHING
RETURNING id;

-- name: create_state
-- Give a new heartbeat its state.
INSERT INTO heartbeat_states (heartbeat_id, state, since_ms, failures_in_row, open_runs, version)
VALUES (?, 'new', ?, 0, 0, 0);

-- name: note_created
-- Note that a ping has created the heartbeat: the control plane publishes its name.
INSERT INTO created_heartbeats (heartbeat_id, created_ms) VALUES (?, ?);

-- name: read_creating_pings
-- Which of these pings are applied, and to which heartbeats that still exist?
SELECT p.ping_id, h.id
FROM creating_pings AS p
LEFT JOIN heartbeats AS h ON h.id = p.heartbeat_id
WHERE p.ping_id IN (SELECT value FROM json_each(?));

-- name: note_creating_ping
-- Note to which heartbeat a ping is applied.
INSERT INTO creating_pings (ping_id, heartbeat_id, applied_ms) VALUES (?, ?, ?) ON CONFLICT DO NOTHING;

-- name: delete_creating_pings
-- Forget up to ?2 pings that were applied before ?1.
DELETE FROM creating_pings WHERE ping_id IN (
    SELECT ping_id FROM creating_pings WHERE applied_ms < ?1 LIMIT ?2
);

-- name: write_log_entry
-- Add an entry to the log of a heartbeat of the environment ?6.
INSERT INTO heartbeat_log_entries (heartbeat_id, entry_id, run_id, received_ms, text)
SELECT ?1, ?2, ?3, ?4, ?5
WHERE EXISTS (
    SELECT 1 FROM heartbeats JOIN environments ON environments.id = heartbeats.environment_id
    WHERE heartbeats.id = ?1 AND environments.public_id = ?6
)
ON CONFLICT DO NOTHING;

-- name: trim_log
-- Remove the log entries of heartbeat ?1 beyond the newest ?2.
DELETE FROM heartbeat_log_entries WHERE heartbeat_id = ?1 AND (received_ms, entry_id) <= (
    SELECT received_ms, entry_id FROM heartbeat_log_entries WHERE heartbeat_id = ?1
    ORDER BY received_ms DESC, entry_id DESC LIMIT 1 OFFSET ?2
);

-- name: delete_log_entries
-- Remove up to ?2 log entries that were received before ?1.
DELETE FROM heartbeat_log_entries WHERE (heartbeat_id, entry_id) IN (
    SELECT heartbeat_id, entry_id FROM heartbeat_log_entries WHERE received_ms < ?1 LIMIT ?2
);

-- name: read_prunable_runs
-- Which runs whose first signal is older than the first parameter may be removed? Not the open ones that still have a time
-- limit, nor the newest success: the failures in a row are counted from it.
SELECT r.heartbeat_id, run_id, first_ms, started_ms, succeeded_ms, failed_ms, timed_out_ms
FROM heartbeat_runs AS r
JOIN heartbeat_states AS s ON s.heartbeat_id = r.heartbeat_id
WHERE NOT (
        started_ms IS NOT NULL AND succeeded_ms IS NULL AND failed_ms IS NULL AND timed_out_ms IS NULL
        AND started_ms > coalesce(s.judged_from_ms, -1)
    )
    AND NOT (succeeded_ms IS NOT NULL AND succeeded_ms >= coalesce(s.last_success_ms, 0))
    AND first_ms < ?
LIMIT ?;

-- name: write_state
-- Write the state of a heartbeat whose version has not changed since it was read.
UPDATE heartbeat_states SET state = ?, since_ms = ?, due_ms = ?, deadline_ms = ?, last_signal_ms = ?,
    last_success_ms = ?, last_end_ms = ?, failures_in_row = ?, open_runs = ?, oldest_start_ms = ?, missed_ms = ?,
    pings = ?, alerted = ?, version = version + 1
WHERE heartbeat_id = ? AND version = ?;

-- name: write_run
-- Add a run, or replace its stored values.
INSERT OR REPLACE INTO heartbeat_runs
    (heartbeat_id, run_id, first_ms, started_ms, succeeded_ms, failed_ms, timed_out_ms, exit_status, output)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: delete_run
-- Remove a run.
DELETE FROM heartbeat_runs WHERE heartbeat_id = ? AND run_id = ?;

-- name: write_alert
-- Add an alert event of a heartbeat, which is ?6.
INSERT INTO alert_events (account_id, project_id, environment_id, kind, subject, state, at_ms, facts)
SELECT p.account_id, p.id, e.id, ?1, ?2, ?3, ?4, ?5
FROM heartbeats AS h
JOIN environments AS e ON e.id = h.environment_id
JOIN projects AS p ON p.id = e.project_id
WHERE h.id = ?6;

-- name: mark_unknown
-- Set heartbeats to unknown that are not down and have a deadline after the second parameter and not later than the
-- third.
UPDATE heartbeat_states SET state = 'unknown', since_ms = ?, version = version + 1
WHERE deadline_ms > ? AND deadline_ms <= ? AND state NOT IN ('unknown', 'down');

-- name: add_clock
-- Start this clock, unless it runs.
INSERT INTO monitor_progress (topic, "partition", applied_through_ms) VALUES (?, 0, ?) ON CONFLICT DO NOTHING;

-- name: read_clock
-- Until when did this clock run?
SELECT applied_through_ms FROM monitor_progress WHERE topic = ? AND "partition" = 0;

-- name: move_past_gap
-- Move the deadlines of all heartbeats by the gap from :from_ms to :to_ms, to a grace time after its end at least; those that
-- the gap may have hidden a run of become unknown. A signal from after the gap has ended it for its heartbeat.
UPDATE heartbeat_states SET
    blind_ms = :to_ms - :from_ms + CASE WHEN last_signal_ms < blind_to_ms THEN blind_ms ELSE 0 END,
    blind_from_ms = CASE WHEN last_signal_ms < blind_to_ms THEN blind_from_ms ELSE :from_ms END,
    blind_to_ms = :to_ms,
    since_ms = CASE
        WHEN deadline_ms > :from_ms AND deadline_ms <= :to_ms + h.grace AND state NOT IN ('down', 'unknown')
        THEN :to_ms ELSE since_ms END,
    state = CASE
        WHEN deadline_ms > :from_ms AND deadline_ms <= :to_ms + h.grace AND state <> 'down'
        THEN 'unknown' ELSE state END,
    due_ms = CASE
        WHEN deadline_ms > :from_ms AND due_ms IS NOT NULL
        THEN max(deadline_ms + :to_ms - :from_ms, :to_ms + h.grace) - CASE WHEN due_ms < deadline_ms THEN h.grace ELSE 0 END
        ELSE due_ms END,
    deadline_ms = CASE
        WHEN deadline_ms > :from_ms THEN max(deadline_ms + :to_ms - :from_ms, :to_ms + h.grace)
        ELSE deadline_ms END,
    version = version + 1
FROM (SELECT id, 1000 * grace_seconds AS grace FROM heartbeats) AS h
WHERE h.id = heartbeat_id AND state NOT IN ('new', 'paused') AND coalesce(last_signal_ms, 0) < :to_ms;

-- name: write_blind_alert
-- Add the alert event that monitoring was blind, for the oldest account, which runs the installation.
INSERT INTO alert_events (account_id, kind, subject, state, at_ms, facts)
SELECT min(id), 'platform.blind', 'blind', 'info', :at_ms, :facts FROM accounts HAVING min(id) IS NOT NULL;

-- name: read_progress
-- Up to which time is each partition of a topic applied?
SELECT "partition", applied_through_ms FROM monitor_progress WHERE topic = ?;

-- name: write_progress
-- Note up to which time a partition is applied; an earlier time than the stored one changes nothing.
INSERT INTO monitor_progress (topic, "partition", applied_through_ms) VALUES (?, ?, ?)
ON CONFLICT (topic, "partition") DO UPDATE SET applied_through_ms = max(applied_through_ms, excluded.applied_through_ms);

-- name: delete_progress
-- Remove the progress of all partitions of a topic except these.
DELETE FROM monitor_progress WHERE topic = ? AND "partition" NOT IN (SELECT value FROM json_each(?));

-- name: write_snapshot
-- Store the snapshot of a queue if it is newer than the stored one and the queue belongs to the environment ?10.
INSERT INTO queue_states (queue_id, snapshot_id, observed_us, received_ms, pending, delayed, reserved, failed,
    oldest_wait_seconds)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9
WHERE EXISTS (
    SELECT 1 FROM queues JOIN environments ON environments.id = queues.environment_id
    WHERE queues.id = ?1 AND environments.public_id = ?10
)
ON CONFLICT (queue_id) DO UPDATE SET snapshot_id = excluded.snapshot_id, observed_us = excluded.observed_us,
    received_ms = excluded.received_ms, pending = excluded.pending, delayed = excluded.delayed,
    reserved = excluded.reserved, failed = excluded.failed, oldest_wait_seconds = excluded.oldest_wait_seconds
WHERE (excluded.observed_us, excluded.snapshot_id) > (queue_states.observed_us, queue_states.snapshot_id);

-- name: write_worker
-- Store the update of a worker if its sequence is above the stored one and the queue belongs to the environment ?7.
INSERT INTO queue_workers (queue_id, worker_id, sequence, status, job_id, received_ms)
SELECT ?1, ?2, ?3, ?4, ?5, ?6
WHERE EXISTS (
    SELECT 1 FROM queues JOIN environments ON environments.id = queues.environment_id
    WHERE queues.id = ?1 AND environments.public_id = ?7
)
ON CONFLICT (queue_id, worker_id) DO UPDATE SET sequence = excluded.sequence, status = excluded.status,
    job_id = excluded.job_id, received_ms = excluded.received_ms
WHERE excluded.sequence > queue_workers.sequence;

-- name: forget_workers
-- Remove the workers of queue ?1 beyond the ?2 that reported last.
DELETE FROM queue_workers WHERE queue_id = ?1 AND (received_ms, worker_id) <= (
    SELECT received_ms, worker_id FROM queue_workers WHERE queue_id = ?1
    ORDER BY received_ms DESC, worker_id DESC LIMIT 1 OFFSET ?2
);
