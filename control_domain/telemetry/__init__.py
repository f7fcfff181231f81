"""Reads of the telemetry of an environment, and what people decide about its exceptions."""
