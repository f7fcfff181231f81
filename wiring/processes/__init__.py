"""Runs each component as its own process on external engines (Kafka, ClickHouse, Postgres, Redis)."""
