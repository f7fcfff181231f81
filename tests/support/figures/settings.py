"""The figures of pages of settings and configuration."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.support.figures.expected import Shown
from tests.support.figures.texts import (
    write_between,
    write_bytes,
    write_count,
    write_plural,
    write_seconds,
    write_share,
    write_short,
)

_STORED = {
    "events": "Events",
    "spans": "Spans",
    "log_records": "Log records",
    "metric_points": "Metric points",
    "pageviews": "Page views",
}
_COUNTED = {
    "projects": "Projects",
    "environments": "Environments",
    "people": "People",
    "monitors": "Heartbeats and queues",
    "sites": "Sites",
    "deployments": "Deployments",
}
_KINDS = {
    "telemetry_events": "Events",
    "otel_traces": "Traces",
    "otel_logs": "Logs",
    "otel_metrics": "Metrics",
    "exceptions": "Exceptions",
    "pageviews": "Page views",
    "daily_rollups": "Daily rollups",
    "dropped_pageviews": "Dropped page views",
    "queue_history": "Queue history",
    "ingest_receipts": "Ingest receipts",
}
_DATABASES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


def _read_account(account: Mapping[str, Any]) -> Iterable[list[str]]:
    limits = account["organization"]["plan"]["limits"]
    rate, burst = limits["ingest_events_per_second"], limits["ingest_burst"]
    yield [f"{write_count(rate)} events per second, bursts of {write_count(burst)}"]


def _read_counts(usage: Mapping[str, Any]) -> Iterable[list[str]]:
    for name, label in _COUNTED.items():
        yield [label, write_count(usage["counts"][name])]


def _read_usage(usage: Mapping[str, Any]) -> Iterable[list[str]]:
    for name, label in _STORED.items():
        total = sum(day[name] for day in usage["days"])
        yield [label, write_short(total), write_count(total)]
    shown = [name for name in _STORED if any(day[name] for day in usage["days"])]
    for day in usage["days"]:
        yield [f"{day['day']} {' '.join(write_count(day[name]) for name in shown)}"]
    for each in usage["environments"]:
        totals = (sum(day[name] for day in each["days"]) for name in list(_STORED)[:4])
        name = f"{each['project']['name']} · {each['environment']['name']}"
        yield [name, " ".join(map(write_count, totals))]
    for each in usage["sites"]:
        views = sum(day["pageviews"] for day in each["days"])
        yield [f"{each['project']['name']} · {each['site']['name']}", write_count(views)]


def _read_storage(storage: Mapping[str, Any]) -> Iterable[list[str]]:
    stored = sum(kind["bytes"] for kind in storage["kinds"]) + storage["other_bytes"]
    left = storage["days_left"]
    yield ["Stored data", write_bytes(stored)]
    yield ["Growth per day", write_bytes(storage["bytes_per_day"])]
    yield ["Space lasts for", "over 10 years" if left is None else write_plural(left, "day")]
    yield [f"Database ({_DATABASES[storage['database']]})", write_bytes(storage["database_bytes"])]
    if storage["event_log_bytes"] is not None:
        yield ["Event log", write_bytes(storage["event_log_bytes"])]
    for disk in storage["disks"]:
        used = (disk["total_bytes"] - disk["free_bytes"]) / max(1, disk["total_bytes"])
        total, free = write_bytes(disk["total_bytes"]), write_bytes(disk["free_bytes"])
        yield [f"{write_share(used)} of {total}, {free} free"]
    for kind in storage["kinds"]:
        sizes = (
            write_bytes(kind["bytes"]),
            write_count(kind["rows"]),
            write_bytes(kind["bytes_per_day"]),
            _write_days(kind["retention_days"]),
        )
        yield [_KINDS[kind["kind"]], " ".join(sizes)]
    yield ["Other", write_bytes(storage["other_bytes"])]


def _write_days(days: int | None) -> str:
    if days is None:
        return "forever"
    if days >= 365 and days % 365 == 0:
        return write_plural(days // 365, "year")
    return write_plural(days, "day")


def _read_backups(backups: Mapping[str, Any]) -> Iterable[list[str]]:
    for each in backups["backups"][:5]:
        took = write_seconds(each["seconds"])
        yield [each["name"], each["created_at"], f"{write_bytes(each['bytes'])} {took}"]


def _read_people(people: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in people:
        yield [each["name"], each["email"], each["role"]]


def _read_tokens(tokens: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in tokens:
        if each["state"] == "live":
            used = [] if each["last_used_at"] is None else [each["last_used_at"]]
            yield [each["name"], each["person"]["name"], each["created_at"], *used]


def _read_keys(keys: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in keys:
        if each["state"] == "live":
            yield [f"#{each['id']}", each["created_at"]]


def _read_audit(entries: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in entries:
        person = "operator" if each["person"] is None else each["person"]["name"]
        token = [] if each["token_id"] is None else [f"token #{each['token_id']}"]
        yield [each["at"], person, each["action"], each["subject"], each["source"], *token]


def _read_sessions(sessions: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in sessions:
        yield [each["address"], each["created_at"], each["last_used_at"]]


def _read_runs(runs: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in runs:
        took = write_between(each["created_at"], each["finished_at"])
        counts = [f"{count} {status}" for status, count in each["counts"].items() if count]
        yield [f"#{each['id']}", *counts, each["created_at"], *took, f"#{each['review_id']}"]


def _read_newest_run(runs: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in runs[:1]:
        yield [f"#{each['id']}", each["created_at"]]


def _read_reviews(reviews: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in reviews:
        create, update, delete = (each["summary"].get(name, 0) for name in ("create", "update", "delete"))
        plan = f"+{create} ~{update} −{delete}"
        yield [f"#{each['id']}", plan, each["created_at"], each["expires_at"]]


def _read_run(run: Mapping[str, Any]) -> Iterable[list[str]]:
    steps = run["operations"]
    done = sum(step["status"] == "succeeded" for step in steps)
    took = [f"took {text}" for text in write_between(run["created_at"], run["finished_at"])]
    yield [f"{done} of {write_plural(len(steps), 'step')} done", run["created_at"], *took]


_PROJECT = r"projects/\w+"
_RUNS = f"{_PROJECT}/configuration/applications"
_REVIEWS = f"{_PROJECT}/configuration/reviews"

SETTINGS: dict[str, Shown] = {
    "/settings": {"me": _read_account, "usage": _read_counts},
    "/settings/people": {"people": _read_people},
    "/settings/tokens": {"tokens": _read_tokens},
    "/settings/keys": {r"environments/\w+/ingest-keys": _read_keys},
    "/settings/usage": {"usage": _read_usage},
    "/settings/storage": {"storage": _read_storage, "storage/backups": _read_backups},
    "/settings/audit": {"audit": _read_audit},
    "/settings/security": {"sessions": _read_sessions},
    "/configuration": {_RUNS: _read_newest_run},
    "/configuration/:project/history": {_RUNS: _read_runs, _REVIEWS: _read_reviews},
    "/configuration/:project/applications/:application": {rf"{_RUNS}/\d+": _read_run},
}
