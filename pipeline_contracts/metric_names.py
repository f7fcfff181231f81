"""Every metric that Pharos exports, with its meaning."""

from typing import Literal

MetricName = Literal[
    # Requests answered, by route and status.
    "pharos_edge_requests",
    # Events acknowledged with a 202, OTLP's records with a 200.
    "pharos_edge_events_accepted",
    # Signals of heartbeats and queues acknowledged with a 202.
    "pharos_edge_signals_accepted",
    # Seconds from the first byte of the head to the answer.
    "pharos_edge_request_seconds",
    # Bytes of bodies that are in work now.
    "pharos_edge_in_flight_bytes",
    # Leases of rate tokens that the counter could not give because it was away.
    "pharos_edge_rate_fallbacks",
    # Days since the database that tells countries of addresses was made.
    "pharos_edge_country_database_age_days",
    # Records read from the log.
    "pharos_consumer_records",
    # Rows inserted, by table.
    "pharos_consumer_rows",
    # Records dropped because their batch is stored already.
    "pharos_consumer_duplicates",
    # Records put aside because they can never be stored.
    "pharos_consumer_dead_letters",
    # Chunks that were carried out again after a restart.
    "pharos_consumer_replayed_chunks",
    # Attempts of a chunk that failed because an engine was away.
    "pharos_consumer_retries",
    # Faults of the loop itself: each is a defect, with its stack in the log.
    "pharos_consumer_failures",
    # Seconds by which signals of heartbeats are behind: what is due in between is unknown.
    "pharos_monitor_scan_lag_seconds",
    # States of heartbeats that time has changed, by state.
    "pharos_monitor_transitions",
    # Bytes that the log holds on disk; on Kafka, that wait for the brokers.
    "pharos_log_bytes",
    # Bytes of dead letters in the embedded log.
    "pharos_log_dead_letter_bytes",
    # Dead letters that left the embedded log because newer ones needed the room.
    "pharos_log_dead_letters_removed",
    # Requests that the control plane answered, by method and status.
    "pharos_control_requests",
    # Deployments carried out, by how they ended.
    "pharos_deployer_deployments",
    # Processes of environments, by state.
    "pharos_deployer_instances",
    # Faults of the deployer itself: each is a defect, with its stack in the log.
    "pharos_deployer_failures",
]
