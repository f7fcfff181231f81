"""Every metric that Pharos exports, with its meaning."""

from typing import Literal

MetricName = Literal[
    # Responses, by route and status.
    "pharos_edge_requests",
    # Events acknowledged with a 202, and OTLP records acknowledged with a 200.
    "pharos_edge_events_accepted",
    # Signals of heartbeats and queues acknowledged with a 202.
    "pharos_edge_signals_accepted",
    # Items of Sentry SDKs that were accepted and not kept, by type and reason.
    "pharos_edge_sentry_dropped_items",
    # Seconds from the start of the handler to the response.
    "pharos_edge_request_seconds",
    # Bytes of request bodies in flight.
    "pharos_edge_in_flight_bytes",
    # Leases of rate tokens that the edge granted itself because the counter was unreachable.
    "pharos_edge_rate_fallbacks",
    # 1 if the accelerator validates request bodies, 0 if Python does.
    "pharos_edge_accelerated",
    # Request bodies that the accelerator gave up because of a defect; Python validated them.
    "pharos_edge_accelerator_panics",
    # Age of the database of countries, in days.
    "pharos_edge_country_database_age_days",
    # Records read from the log.
    "pharos_consumer_records",
    # Rows inserted, by table.
    "pharos_consumer_rows",
    # Records dropped because their batch is stored already.
    "pharos_consumer_duplicates",
    # Records moved to dead letters because they can never be stored.
    "pharos_consumer_dead_letters",
    # Chunks that were inserted again after a restart.
    "pharos_consumer_replayed_chunks",
    # Attempts of a chunk that failed because an engine was unreachable.
    "pharos_consumer_retries",
    # Unexpected errors of the consumer loop: each is a defect, with its traceback in the log.
    "pharos_consumer_failures",
    # Seconds by which the processing of heartbeat signals is behind.
    "pharos_monitor_scan_lag_seconds",
    # State changes of heartbeats by a deadline, by new state.
    "pharos_monitor_transitions",
    # Bytes of the embedded log on disk; with Kafka, bytes that wait for the brokers.
    "pharos_log_bytes",
    # Bytes of dead letters in the embedded log.
    "pharos_log_dead_letter_bytes",
    # Dead letters that the embedded log removed to make space for newer ones.
    "pharos_log_dead_letters_removed",
    # Responses of the control plane, by method and status.
    "pharos_control_requests",
    # Seconds since the control plane last published all keys to the edges, or since its start.
    "pharos_control_keys_published_age_seconds",
    # Seconds that the last alert scan took.
    "pharos_alert_scan_seconds",
    # Seconds since the last complete alert scan.
    "pharos_alert_scan_age_seconds",
    # Alert events that the alert scan has written, by kind and state.
    "pharos_alert_scan_events",
    # Finished deployments, by final status.
    "pharos_deployer_deployments",
    # Processes of environments, by state.
    "pharos_deployer_instances",
    # Unexpected errors of the deployer: each is a defect, with its traceback in the log.
    "pharos_deployer_failures",
]
