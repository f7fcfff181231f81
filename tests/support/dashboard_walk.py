"""Steps of a newcomer's first hour in the dashboard, as a person takes them: they click, type and read."""

import asyncio
import json
import re
import urllib.error
import urllib.request
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit
from uuid import uuid4

from playwright.async_api import Request

from control_api.live_logs.log_streams import MAX_STREAMS_PER_PERSON
from tests.support.dashboard_browser import PASSWORD, Person
from tests.support.figures.texts import write_count
from tests.support.platform_process import PlatformProcess
from tests.support.waits import poll_until, wait_until


async def sign_in_by_printed_link(person: Person, printed: str) -> None:
    """Open the one-time link that the command line has printed, and choose a password in the page."""
    address = urlsplit(printed)
    # The page requests the signed-in person; there is none.
    person.watch.expected.add(401)
    await person.page.goto(f"{person.origin}{address.path}#{address.fragment}")
    await person.page.get_by_label("Password", exact=True).fill(PASSWORD)
    await person.page.get_by_role("button", name="Save and sign in").click()
    await person.page.get_by_role("navigation", name="Areas").wait_for()
    person.watch.expected.discard(401)
    assert address.fragment not in person.page.url
    assert person.watch.take() == []


async def filter_report(person: Person, site: int) -> None:
    """Click rows of the report, remove a filter, clear the rest; check the figures against the API each time."""
    page = person.page
    await person.open(f"/analytics/{site}?{_period()}")
    total = await _check_figures(person, site, [])
    source = await _click_row(person, "Sources")
    by_source = ["is", "source", [source]]
    assert _read_query(page.url)["source"] == [source]
    fewer = await _check_figures(person, site, [by_source])
    assert 0 < fewer < total
    path = await _click_row(person, "Pages")
    # The API orders filters by the names of the dimensions on the page.
    fewest = await _check_figures(person, site, [["is", "page", [path]], by_source])
    assert 0 < fewest < fewer
    await page.get_by_role("link", name="Remove the filter on page").click()
    assert await _check_figures(person, site, [by_source]) == fewer
    # The address alone restores the same view.
    await person.open(page.url.removeprefix(person.origin))
    assert await _check_figures(person, site, [by_source]) == fewer
    await page.keyboard.press("Escape")
    assert await _check_figures(person, site, []) == total
    assert "source" not in _read_query(page.url)


async def _click_row(person: Person, title: str) -> str:
    row = person.page.get_by_role("region", name=title, exact=True).locator("ol a").first
    name = await row.inner_text()
    await row.click()
    return name


async def _check_figures(person: Person, site: int, filters: list[Any]) -> int:
    """Return the number of visits from the API; check that the page shows this number and that of page views."""
    await person.page.wait_for_function(
        "count => document.querySelectorAll('[aria-label^=\"Remove the filter on\"]').length === count",
        arg=len(filters),
    )
    await person.wait_until_quiet()
    asked = f"&filters={quote(json.dumps(filters))}" if filters else ""
    figures = await person.request("GET", f"/v1/analytics/sites/{site}/figures?{_period()}{asked}")
    shown = {
        name: await person.page.inner_text(f'[data-metric="{name}"]') for name in ("visits", "pageviews")
    }
    assert shown == {name: write_count(figures["metrics"][name]["value"]) for name in shown}
    visits: int = figures["metrics"]["visits"]["value"]
    return visits


def _period() -> str:
    """Return a period of complete days, because visits of today still arrive."""
    today = datetime.now(UTC).date()
    return f"from={today - timedelta(days=4)}&to={today - timedelta(days=2)}&compare=none"


def _read_query(url: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(url).query)


async def follow_exception(person: Person, environment: str) -> None:
    """Open an exception from the list, its trace from there, and the log lines of that trace."""
    page, inside = person.page, f"/v1/environments/{environment}"
    await person.open(f"/monitoring/{environment}/exceptions")
    await page.get_by_role("link", name="OperationalError").first.click()
    await page.get_by_role("heading", level=1, name="OperationalError").wait_for()
    await person.wait_until_quiet()
    group = urlsplit(page.url).path.rsplit("/", 1)[1]
    found = await person.request("GET", f"{inside}/exceptions/{group}?since=1d")
    stack = await page.get_by_role("region", name="Stack of the last exception").inner_text()
    assert stack.strip() == found["stack"].strip()
    await page.get_by_role("link", name="Trace", exact=True).click()
    spans = page.get_by_role("list", name="Spans")
    await spans.wait_for()
    trace = await person.request("GET", f"{inside}/traces/{found['trace_id']}")
    shown = await spans.inner_text()
    assert [span["name"] for span in trace["tree"] if span["name"] not in shown] == []
    await page.go_back()
    await page.get_by_role("link", name="Log lines").click()
    await page.wait_for_url("**/logs?*")
    await person.wait_until_quiet()
    lines = await person.request("GET", f"{inside}/logs?since=30d&trace={found['trace_id']}&limit=100")
    assert lines
    shown = await page.inner_text("main")
    missing = [line["text"] for line in lines if line["text"] not in shown]
    assert not missing, (missing, shown)


async def create_heartbeat(person: Person, name: str) -> int:
    """Create a heartbeat that is due each second, ping the URL that the page shows, and return its ID."""
    page = person.page
    await person.open("/jobs/heartbeats")
    await page.get_by_role("button", name="New heartbeat").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill(name)
    await dialog.get_by_label("At an interval").check()
    await dialog.get_by_label("Period", exact=True).fill("1")
    await dialog.get_by_label("Unit of period").select_option("seconds")
    await dialog.get_by_label("Grace time").first.fill("0")
    await dialog.get_by_role("button", name="Create heartbeat").click()
    address = await dialog.get_by_role("region", name="Ping URL").inner_text()
    assert await asyncio.to_thread(_ping, address.strip()) == 200
    await dialog.get_by_role("button", name="Open the heartbeat").click()
    await page.wait_for_url(re.compile(r"/jobs/heartbeats/\d+$"))
    return int(page.url.rsplit("/", 1)[1])


def _ping(address: str) -> int:
    with urllib.request.urlopen(address, timeout=60) as answer:
        status: int = answer.status
        return status


async def watch_heartbeat_go_down(person: Person, name: str) -> None:
    """Wait until the page of a heartbeat shows, without a reload, that the heartbeat is down; follow the link to the
    incident."""
    page = person.page
    incident = page.get_by_role("status").get_by_role("link")
    await incident.wait_for()
    await incident.click()
    await page.wait_for_url("**/notifications/incidents/*")
    found = await person.request("GET", f"/v1/incidents/{page.url.rsplit('/', 1)[1]}")
    assert name in found["title"]
    await page.get_by_role("heading", level=1, name=found["title"]).wait_for()
    await person.open("/notifications/incidents?state=firing")
    await page.get_by_role("link", name=found["title"]).wait_for()


async def apply_configuration(person: Person, project: str) -> None:
    """Edit the document, read the plan, apply it, and follow its steps until the project has changed."""
    page = person.page
    await person.open(f"/configuration/{project}")
    editor = page.get_by_label("Configuration document")
    document = await editor.input_value()
    before = (await person.request("GET", f"/v1/projects/{project}"))["name"]
    after = f"{before} of the walk"
    assert document.count(before) == 1, document
    await editor.fill(document.replace(before, after))
    await page.get_by_role("button", name="Plan", exact=True).click()
    await page.locator("ins", has_text=after).wait_for()
    await page.locator("del", has_text=before).wait_for()
    await page.get_by_role("button", name="Review and apply").click()
    await page.get_by_role("button", name="Apply", exact=True).click()
    await page.wait_for_url("**/applications/*")
    await page.get_by_text("1 of 1 step done").wait_for()
    assert (await person.request("GET", f"/v1/projects/{project}"))["name"] == after


async def watch_in_ten_tabs(person: Person, environment: str) -> None:
    """Check that ten tabs of one browser show a change, share one stream, and that another tab takes the stream
    over."""
    streams: set[Request] = set()

    def note(request: Request) -> None:
        if "/v1/changes" in request.url:
            streams.add(request)

    context = person.context
    context.on("request", note)
    context.on("requestfailed", lambda request: streams.discard(request))
    context.on("requestfinished", lambda request: streams.discard(request))
    tabs = []
    try:
        for _ in range(9):
            tab = await context.new_page()
            tabs.append(tab)
            await tab.goto(f"{person.origin}/jobs/heartbeats")
            await tab.get_by_role("heading", name="Jobs").wait_for()
        # This tab has held the stream, and another tab takes it over.
        await person.open("/jobs/heartbeats")
        for number in range(2):
            body = {"name": f"tab-{number}", "period_seconds": 3600}
            await person.request("POST", f"/v1/environments/{environment}/heartbeats", body)
            for tab in (person.page, *tabs):
                await tab.get_by_role("link", name=f"tab-{number}", exact=True).wait_for()
            held = [each for each in streams if not each.frame.page.is_closed()]
            assert len(held) == 1, [each.frame.page for each in held]
            # The same happens when the tab with the stream is closed.
            holder = held[0].frame.page
            tabs.remove(holder)
            await holder.close()
    finally:
        for tab in tabs:
            await tab.close()


async def follow_live_tail(person: Person, platform: PlatformProcess, environment: str) -> None:
    """Check that the live tail shows a record as it arrives, stops while its tab is hidden, and ends on the server when
    the page is closed."""
    page = person.page
    address = f"/v1/environments/{environment}/logs"
    ended: list[str] = []

    def note(request: Request) -> None:
        if address in request.url and request.headers.get("accept") == "text/event-stream":
            ended.append(request.url)

    page.on("requestfailed", note)
    status = page.get_by_role("status")
    await page.goto(f"{person.origin}/monitoring/{environment}/logs?live=1&search=lighthouse")
    await status.get_by_text("Following").wait_for()
    await _send_log(platform, "The lighthouse is lit")
    await page.locator("summary", has_text="The lighthouse is lit").wait_for()
    await status.get_by_text("1 record so far").wait_for()
    # A browser reports this state for a tab that another tab covers.
    hide = """hidden => {
      Object.defineProperty(document, 'hidden', {get: () => hidden, configurable: true})
      document.dispatchEvent(new Event('visibilitychange'))
    }"""
    await page.evaluate(hide, True)
    await status.get_by_text("stopped while this tab was hidden").wait_for()
    await poll_until(lambda: len(ended) == 1)
    await page.evaluate(hide, False)
    await status.get_by_role("button", name="Follow again").click()
    await status.get_by_text("Following").wait_for()
    await _send_log(platform, "The lighthouse is lit again")
    await page.locator("summary", has_text="The lighthouse is lit again").wait_for()
    await page.get_by_role("link", name="Metrics").click()
    await page.get_by_role("heading", level=1, name="Metrics").wait_for()
    await poll_until(lambda: len(ended) == 2)
    # All streams of the person are free again.
    await asyncio.to_thread(_open_all_streams, platform, f"/api{address}")


async def _send_log(platform: PlatformProcess, text: str) -> None:
    batch = {"batch_id": uuid4().hex, "events": [{"type": "log", "severity": "info", "title": text}]}
    assert (await asyncio.to_thread(platform.ingest, batch)).status == 202


def _open_all_streams(platform: PlatformProcess, path: str) -> None:
    """Open the maximum number of streams of a person. The server may still be closing an earlier stream."""
    headers = {"Accept": "text/event-stream", "Authorization": f"Bearer {platform.credentials['api_token']}"}
    request = urllib.request.Request(f"http://127.0.0.1:{platform.port}{path}", headers=headers)

    def opens_all() -> bool:
        with ExitStack() as opened:
            try:
                for _ in range(MAX_STREAMS_PER_PERSON):
                    opened.enter_context(urllib.request.urlopen(request, timeout=30))
            except urllib.error.HTTPError as refused:
                assert refused.code in (429, 503)
                return False
        return True

    wait_until(opens_all, 30, lambda: "a stream is still open")
