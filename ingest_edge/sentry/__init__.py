"""The intake for Sentry's SDKs: envelopes become batches of telemetry, OTLP spans and OTLP logs."""
