"""What holds for each `pharos up --demo`, however many days of past visits it has."""

import json
import re
import time
import urllib.request
from datetime import UTC, datetime

from tests.support.demo_platform import wait_until_noted
from tests.support.platform_process import PlatformProcess


def _shop(platform: PlatformProcess, seconds: float = 120.0) -> str:
    """Return the address of the shop that the demo prints."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := re.search(
            r"The demo shop, measured by the tracker: (http://\S+)", platform.log.read_text()
        ):
            return found[1]
        time.sleep(0.1)
    raise AssertionError(platform.log.read_text()[-2000:])


def check_first_report(demo: PlatformProcess, days: int) -> None:
    """Check that the report of `days` days has past visits, and that the shop measures clicks."""
    shop = _shop(demo)
    with urllib.request.urlopen(shop, timeout=60) as answer:
        page = answer.read().decode()
    site = demo.credentials["site"]
    assert f'data-site="{site["tracker_id"]}"' in page
    assert f"http://127.0.0.1:{demo.port}/tracker/v1.js" in page
    wait_until_noted(demo, "visits", 240.0)
    report = json.loads(demo.run("report", str(site["id"]), "--days", str(days), "--json").stdout)
    report = report.get("data", report)
    assert report["metrics"]["pageviews"]["value"] > 30_000 / 90 * days
    assert len(report["series"]) == days
    assert all(day["pageviews"] for day in report["series"][:-1])
    assert all(report[name] for name in ("pages", "sources", "countries", "campaigns", "outbound_links"))
    assert {goal["name"]: goal["conversions"] > 0 for goal in report["goals"]} == {
        "Purchase": True,
        "Signup": True,
    }
    assert all(report["page_speed"][name]["samples"] for name in ("lcp", "inp", "cls", "fcp", "ttfb"))
    # The shop's pages may send: their origin was registered.
    preflight = {"Origin": shop.rstrip("/")}
    answer = demo.request("OPTIONS", f"/api/v1/collect/{site['tracker_id']}", headers=preflight)
    assert answer.status == 204


def check_second_start(demo: PlatformProcess) -> None:
    """Kill the demo, start it again, and check that it repeats neither past visits nor objects."""
    _shop(demo)
    wait_until_noted(demo, "complete", 1200.0)
    assert "the demo has no" not in demo.log.read_text()
    # The same days both times, even if midnight is in between.
    today = datetime.now(UTC).date()
    count = f"SELECT count() AS rows, uniqExact(id) AS ids FROM pharos.pageviews WHERE day < '{today}'"
    (before,) = demo.query(count)
    counts = _count_objects(demo)
    demo.kill()
    demo.log.write_text("")
    demo.start("--demo")
    _shop(demo)
    demo.wait_until_consumed()
    assert demo.query(count) == [before]
    assert before["rows"] == before["ids"]
    assert _count_objects(demo) == counts


_LISTS = (
    "projects",
    "people",
    "deployments",
    "monitors/heartbeats",
    "monitors/queues",
    "thresholds",
    "invitations",
)


def _count_objects(platform: PlatformProcess) -> dict[str, int]:
    """Return the lengths of lists, each of which the demo fills."""
    headers = {"Authorization": f"Bearer {platform.credentials['api_token']}"}
    counts = {}
    for name in _LISTS:
        answer = platform.request("GET", f"/api/v1/{name}?limit=100", headers=headers)
        assert answer.status == 200
        counts[name] = len(answer.json["data"])
    assert all(counts.values())
    return counts
