"""Documents of the API about notifications."""

from typing import Any

PROJECT = {"id": "prj_1", "number": 1, "slug": "shop", "name": "Shop"}
PRODUCTION = {"id": "env_1", "number": 1, "slug": "production", "name": "Production"}
PROJECTS = [{**PROJECT, "environments": [{**PRODUCTION, "type": "production"}]}]
ADA = {"id": "per_1", "number": 1, "name": "Ada", "email": "ada@shop.example"}
AT = "2026-11-20T12:00:00Z"


def channel(name: str = "ops", type_: str = "slack", **changes: Any) -> dict[str, Any]:
    return {
        "id": f"chn_{name}",
        "number": 3,
        "name": name,
        "type": type_,
        "settings": {},
        "has_secrets": ["url"],
        "quiet_hours": None,
        "enabled": True,
        "failing_since": None,
        "last_error": None,
        "created_at": AT,
        **changes,
    }


def rule(name: str = "on-call", **changes: Any) -> dict[str, Any]:
    return {
        "id": 5,
        "name": name,
        "project": PROJECT,
        "environment": PRODUCTION,
        "kinds": ["heartbeat", "deployment.failed"],
        "min_severity": "warning",
        "recipients": [
            {"channel": {"id": "chn_ops", "name": "ops", "type": "slack"}, "person": None},
            {"channel": None, "person": ADA},
        ],
        "reminders": True,
        "enabled": True,
        "created_at": AT,
        **changes,
    }


def threshold(name: str = "slow", **changes: Any) -> dict[str, Any]:
    return {
        "id": 7,
        "name": name,
        "project": PROJECT,
        "environment": PRODUCTION,
        "kind": "service.latency",
        "target": "checkout",
        "service": None,
        "aggregation": "avg",
        "direction": "above",
        "threshold": 800.0,
        "recovery": 600.0,
        "window_seconds": 300,
        "pending_seconds": 60,
        "severity": "critical",
        "enabled": True,
        "phase": "firing",
        "value": 912.5,
        "evaluated_at": AT,
        "created_at": AT,
        **changes,
    }


def incident(number: int = 1, state: str = "firing", **changes: Any) -> dict[str, Any]:
    return {
        "id": f"inc_{number:026}",
        "number": number,
        "kind": "heartbeat.down",
        "state": state,
        "severity": "critical",
        "title": f"Heartbeat backup-{number} is down",
        "project": PROJECT,
        "environment": PRODUCTION,
        "started_at": AT,
        "changed_at": AT,
        "resolved_at": AT if state == "resolved" else None,
        "acknowledged_at": None,
        "acknowledged_by": None,
        "silenced_until": None,
        **changes,
    }


def notification(number: int = 1, status: str = "sent", **changes: Any) -> dict[str, Any]:
    return {
        "id": f"msg_{number:026}",
        "number": number,
        "title": "Heartbeat backup is down",
        "status": status,
        "state": "firing",
        "reason": "first",
        "is_test": False,
        "project": PROJECT,
        "environment": PRODUCTION,
        "recipient": "ops",
        "channel": "chn_ops",
        "person": None,
        "attempts": 1,
        "created_at": AT,
        "next_attempt_at": None,
        "sent_at": AT if status == "sent" else None,
        "last_error": None,
        **changes,
    }


def attempt(outcome: str = "sent", error: str | None = None, **changes: Any) -> dict[str, Any]:
    return {"at": AT, "took_ms": 120, "outcome": outcome, "error": error, "requested": False, **changes}


def silence(**changes: Any) -> dict[str, Any]:
    return {
        "id": 9,
        "state": "active",
        "project": PROJECT,
        "environment": PRODUCTION,
        "kinds": None,
        "incident": None,
        "incident_title": None,
        "starts_at": AT,
        "ends_at": "2026-11-20T16:00:00Z",
        "reason": "Migration",
        "person": ADA,
        "created_at": AT,
        **changes,
    }
