"""Queries that read the telemetry of one environment: events, logs, traces, exceptions, metrics, services.

Each query is bound to one environment and a time range, and has limits for time and memory
(`limited_sql.py`).
"""
