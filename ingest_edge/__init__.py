"""The write path's edge: accepts telemetry over HTTP, checks it, and answers 202 once the log has it."""
