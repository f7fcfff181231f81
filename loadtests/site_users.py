"""Locust users that act as browsers with the tracker, and as dashboards that request reports."""

import json
import os
import random
import time
import uuid
from typing import Any

from locust import between, task
from locust.contrib.fasthttp import FastHttpUser

from loadtests.bench.collect_payloads import user_agents

# The JSON object has the form {"id": 1, "tracker_id": "sit_…", "origin": "https://…"}.
_SITE: dict[str, Any] = json.loads(os.environ["LOAD_SITE"])
_TOKEN = os.environ["LOAD_API_TOKEN"]
_PATHS = ("/", "/products", "/about", *(f"/products/{number}" for number in range(40)))
_REFERRERS = ("", "", "www.google.com", "news.ycombinator.com", "www.reddit.com", "chatgpt.com")
_FILTERS: tuple[dict[str, str], ...] = (
    {},
    {},
    {"device": "Desktop"},
    {"country": "NO"},
    {"source": "Google"},
    {"path": "/", "device": "Mobile"},
)


class Browser(FastHttpUser):
    """A visitor who views some pages, sometimes buys something, and leaves. Then the next visitor comes."""

    weight = 4
    wait_time = between(0.2, 2.0)

    @task
    def visit(self) -> None:
        self._visitor = str(uuid.uuid4())
        self._agent = random.choice(user_agents())
        referrer = random.choice(_REFERRERS)
        for page in range(random.randint(1, 5)):
            path = random.choice(_PATHS)
            self._collect(
                [self._event("pageview", path, referrer_host=referrer if page == 0 else None)], "page view"
            )
            seconds = random.uniform(0.1, 1.0)
            time.sleep(seconds)
            batch = [
                self._event("event", path, properties={"name": "Engagement", "visible_seconds": seconds})
            ]
            batch += self._vitals(path)
            if random.random() < 0.05:
                bought = {"name": "purchase", "revenue": 29.9, "currency": "EUR"}
                batch.append(self._event("event", path, properties=bought))
            self._collect(batch, "batch of events")

    def _vitals(self, path: str) -> list[dict[str, Any]]:
        values = {
            "LCP": random.lognormvariate(7.4, 0.5),
            "CLS": random.random() / 5,
            "TTFB": random.uniform(50, 900),
        }
        return [
            self._event(
                "event",
                path,
                properties={"name": "Web Vital", "metric": metric, "value": value, "id": str(uuid.uuid4())},
            )
            for metric, value in values.items()
        ]

    def _event(self, kind: str, path: str, **rest: Any) -> dict[str, Any]:
        # All visitors here have the same network address, so each visitor gets an address in a header.
        return {"id": str(uuid.uuid4()), "type": kind, "path": path, "visitor": self._visitor, **rest}

    def _collect(self, events: list[dict[str, Any]], name: str) -> None:
        headers = {
            "Origin": _SITE["origin"],
            "Content-Type": "text/plain;charset=UTF-8",
            "User-Agent": self._agent,
        }
        body = json.dumps({"events": events}).encode()
        path = f"/v1/collect/{_SITE['tracker_id']}"
        with self.client.post(path, data=body, headers=headers, name=name, catch_response=True) as answer:
            if answer.status_code != 202 or answer.json()["data"]["accepted"] != len(events):
                answer.failure(f"status {answer.status_code}: {answer.text[:100]}")


class Dashboard(FastHttpUser):
    """A person who views the report of the site with various periods and filters."""

    weight = 1
    wait_time = between(2.0, 6.0)

    @task
    def open_report(self) -> None:
        days = random.choice((1, 7, 30, 30, 90, 365))
        filters = random.choice(_FILTERS)
        query = "&".join(f"{name}={value}" for name, value in {"days": days, **filters}.items())
        path = f"/v1/analytics/sites/{_SITE['id']}/report?{query}"
        headers = {"Authorization": f"Bearer {_TOKEN}"}
        name = f"report, {days} days{', filtered' if filters else ''}"
        with self.client.get(path, headers=headers, name=name, catch_response=True) as answer:
            if answer.status_code != 200:
                answer.failure(f"status {answer.status_code}")
