"""Transforms of OTLP: make rows for the tables of the OpenTelemetry ClickHouse exporter."""
