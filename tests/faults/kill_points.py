"""Steps of the consumer's loop at which tests kill the consumer."""

ALL_STEPS = [
    "before plan",
    "after plan",
    "before insert pharos.telemetry_events",
    "before insert pharos.ingest_receipts",
    "before commit",
    "after commit",
]
STATES = ["after plan", "before insert pharos.ingest_receipts", "before commit", "after commit"]
"""One step for each state that a restart can find: nothing inserted, some tables, all tables, committed. `before plan`
restarts like `after commit`, `before insert pharos.telemetry_events` like `after plan`."""
IN_THE_BODY = "in the body"
"""Not a step of the loop: half of the rows of an insert are sent. Tests freeze a consumer there."""
