"""Transforms of OTLP records. The rows have the tables of the OpenTelemetry ClickHouse exporter."""
