"""Reads of the telemetry of an environment, and people's decisions about its exceptions."""
