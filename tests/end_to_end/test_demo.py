"""`pharos up --demo`: a shop to click through, and a first report that is not empty."""

import json
import os
import re
import sys
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.demo_platform import running_demo, wait_until_noted
from tests.support.platform_process import PHAROS, PlatformProcess


@pytest.fixture(scope="module", params=[7, pytest.param(90, marks=pytest.mark.full)])
def days(request: pytest.FixtureRequest) -> int:
    """Days of past visits in the demo. Each day costs the consumer CPU, so only `--full` has the product's 90."""
    given: int = request.param
    return given


@pytest.fixture(scope="module")
def demo(days: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformProcess]:
    """One demo for the whole file."""
    program = [str(PHAROS)] if days == 90 else [sys.executable, "-m", "tests.support.short_demo", str(days)]
    # The path is relative, as people type it: Git, which makes the commits, runs in another folder.
    data = Path(os.path.relpath(tmp_path_factory.mktemp("demo") / "demo"))
    with running_demo(data, program) as platform:
        yield platform


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


def test_the_first_report_shows_past_visits_and_live_clicks(demo: PlatformProcess, days: int) -> None:
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
    # The origin of the shop's pages is registered, so they may send events.
    preflight = {"Origin": shop.rstrip("/")}
    answer = demo.request("OPTIONS", f"/api/v1/collect/{site['tracker_id']}", headers=preflight)
    assert answer.status == 204


# The product's 90 days take four minutes of CPU, for which other tests may compete.
@pytest.mark.timeout(1500)
def test_a_second_start_does_not_repeat_past_visits(demo: PlatformProcess) -> None:
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
    """Return the lengths of the lists that the demo fills."""
    headers = {"Authorization": f"Bearer {platform.credentials['api_token']}"}
    counts = {}
    for name in _LISTS:
        answer = platform.request("GET", f"/api/v1/{name}?limit=100", headers=headers)
        assert answer.status == 200
        counts[name] = len(answer.json["data"])
    assert all(counts.values())
    return counts


def test_the_demo_requires_a_folder_of_its_own_and_the_first_site(tmp_path: Path) -> None:
    platform = PlatformProcess(tmp_path / "demo")
    platform.start()
    assert platform.run("site", "remove", "1", "--yes").returncode == 0
    assert platform.stop() == 0
    done = platform.run("up", "--demo", "--port", "0")
    assert done.returncode == 1
    assert "has an installation without the demo, which would change it" in done.stderr
    (platform.data / "demo.json").write_text("{}")
    done = platform.run("up", "--demo", "--port", "0")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "pharos: The demo needs the first site: Site 1 was removed. Leave --demo out."
    )
