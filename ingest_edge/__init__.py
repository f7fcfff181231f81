"""The HTTP edge of the write path: accepts telemetry, validates it, and responds 202 once the log has it."""
