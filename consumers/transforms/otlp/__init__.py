"""From OTLP requests to rows in the tables of the OpenTelemetry ClickHouse exporter."""
