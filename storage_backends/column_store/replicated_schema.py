"""Converts schema statements for one server to statements for a cluster of replicas."""

import re

_CLUSTER = re.compile(r"[A-Za-z0-9_-]{1,100}")
_CREATE = re.compile(r"\b(CREATE (?:DATABASE|TABLE|VIEW|MATERIALIZED VIEW) IF NOT EXISTS [A-Za-z0-9_.]+)")
_ALTER = re.compile(r"\b(ALTER TABLE [A-Za-z0-9_.]+)")
_ENGINE = re.compile(r"\bENGINE = ((?:[A-Z][a-z]+)*MergeTree)\b")


def replicate(statement: str, cluster: str) -> str:
    """Return the statement for all servers of the cluster, with replicated engines.

    Replicas find each other by the server's `default_replica_path`. Raises `ValueError` for an invalid cluster name.
    """
    if not _CLUSTER.fullmatch(cluster):
        raise ValueError("PHAROS_CLICKHOUSE_CLUSTER: letters, digits, - and _")
    statement = _CREATE.sub(rf"\1 ON CLUSTER '{cluster}'", statement, count=1)
    statement = _ALTER.sub(rf"\1 ON CLUSTER '{cluster}'", statement, count=1)
    statement = _ENGINE.sub(r"ENGINE = Replicated\1", statement)
    return statement.replace("non_replicated_deduplication_window", "replicated_deduplication_window")
