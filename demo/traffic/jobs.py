"""Generates the jobs of the demo shop's worker, as events of the ingest API."""

import random
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from demo.traffic.catalogue import WORKER
from demo.traffic.rhythm import SLICE_SECONDS, Troubles, expected_rate
from pipeline_contracts.times import format_time

_JOBS = (
    (
        "SendOrderConfirmation",
        "emails",
        180.0,
        "INSERT INTO sent_emails (order_id, sent_at) VALUES ($1, now())",
    ),
    ("ResizeProductImage", "images", 900.0, "UPDATE images SET variants = $2 WHERE id = $1"),
    ("SyncStock", "default", 2400.0, "SELECT sku, on_hand FROM stock WHERE changed_at > $1"),
)
_JOBS_PER_REQUEST = 0.12
_NOTES = (
    ("info", "Newsletter subscription confirmed"),
    ("debug", "Cache miss for the featured products"),
    ("warning", "Stock of a product is below its threshold"),
    ("info", "Parcel label printed"),
)
_FRAME = 'File "/app/worker/emails.py", line 73, in deliver'
_FAULT = "the mail server closed the connection"


@dataclass(frozen=True, slots=True)
class Jobs:
    """The parameters of the jobs; the same parameters give the same jobs at the same time."""

    seed: int
    troubles: Troubles

    def list_slice(self, begin_s: int) -> list[dict[str, Any]]:
        """Return the events of the slice from `begin_s` on, oldest first."""
        rng = random.Random(f"{self.seed} jobs {begin_s}")
        events: list[dict[str, Any]] = []
        if rng.random() < expected_rate(begin_s) * SLICE_SECONDS * _JOBS_PER_REQUEST * 2:
            events += self._job(rng, begin_s + rng.random() * SLICE_SECONDS)
        if rng.random() < 0.08:
            severity, title = rng.choice(_NOTES)
            at_s = begin_s + rng.random() * SLICE_SECONDS
            events.append(_event(rng, "log", at_s, severity=severity, title=title))
        if begin_s % 60 == 0:
            stuck = self.troubles.seconds_of_stuck_images(begin_s)
            waiting = rng.randint(0, 9) + (0 if stuck is None else round(stuck / 60))
            events.append(
                _event(rng, "metric", begin_s, name="worker.jobs.waiting", payload={"value": waiting})
            )
        return sorted(events, key=lambda event: str(event["timestamp"]))

    def _job(self, rng: random.Random, at_s: float) -> list[dict[str, Any]]:
        name, queue, typical_ms, statement = rng.choice(_JOBS)
        fails = rng.random() < (0.06 if queue == "emails" else 0.01)
        trace, span = f"{rng.getrandbits(128) or 1:032x}", f"{rng.getrandbits(64) or 1:016x}"
        duration_ms = round(typical_ms * rng.lognormvariate(0.0, 0.4), 1)
        links = {"trace_id": trace, "span_id": span}
        job = _event(
            rng,
            "job",
            at_s,
            name=name,
            severity="error" if fails else "info",
            duration_ms=duration_ms,
            attributes={"queue": queue, "status": "failed" if fails else "done"},
            **links,
        )
        query = _event(
            rng,
            "query",
            at_s + 0.01,
            name=statement.split(" ", 1)[0],
            title=statement,
            duration_ms=round(duration_ms * 0.2, 1),
            trace_id=trace,
            parent_span_id=span,
            attributes={"db.system": "postgresql"},
        )
        events = [job, query]
        if fails and queue == "emails":
            events.append(
                _event(
                    rng,
                    "exception",
                    at_s + duration_ms / 1000,
                    name="SMTPServerDisconnected",
                    title=_FAULT,
                    severity="error",
                    trace_id=trace,
                    parent_span_id=span,
                    fingerprint="SMTPServerDisconnected:worker/emails.py:deliver",
                    affected_users=1,
                    details=f"Traceback (most recent call last):\n  {_FRAME}\n    await smtp.sendmail(message)\n"
                    f"SMTPServerDisconnected: {_FAULT}",
                )
            )
        return events


def _event(rng: random.Random, kind: str, at_s: float, **fields: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "id": str(uuid.UUID(int=rng.getrandbits(128), version=4)),
        "timestamp": format_time(datetime.fromtimestamp(at_s, UTC)),
        "service": WORKER,
        **fields,
    }
