"""The browser tracker during outages, refusals, closed tabs and opt-outs; and its build."""

import asyncio
import gzip
import itertools
import json
import sys
import time

import pytest
from aiohttp import web

from tests.support.engines import skip_if_missing
from tests.support.tracked_visit import MEASURED, Visit, pageview
from tests.support.tracker_build import TRACKER, check_build, tracker_copy
from tests.support.waits import wait_for_result


async def test_a_tab_closed_at_once_has_sent_its_events(visit: Visit) -> None:
    await visit.open("plain")
    await visit.expect_events(pageview("plain"), leave=False)
    await visit.run("pharos('event', 'Last')")
    await visit.tab.close()
    await visit.expect_events(pageview("plain"), ("Last", "plain", {}), leave=False)


@pytest.mark.parametrize(("seconds", "count"), [(4, 8), pytest.param(20, 25, marks=pytest.mark.full)])
async def test_events_during_an_outage_arrive_later_once(visit: Visit, seconds: int, count: int) -> None:
    await visit.open("plain")
    await visit.expect_events(pageview("plain"), leave=False)
    again = visit.collector.requests["again"]
    away = asyncio.create_task(visit.collector.go_offline(seconds))
    created = []
    for number in range(count):
        await visit.run(f"pharos('event', 'Away', {{number: {number}}})")
        created.append(("Away", "plain", {"number": number}))
        await asyncio.sleep(0.3)
    await away
    await visit.expect_events(pageview("plain"), *created, leave=False, seconds=120)
    await wait_for_result(lambda: visit.tab.evaluate("sessionStorage.length === 0"))
    ids = [event["id"] for event in await visit.collector.events()]
    assert len(ids) == len(set(ids))
    assert visit.collector.requests["again"] == again


async def test_the_next_page_sends_the_unsent_events_of_the_previous_page(visit: Visit) -> None:
    await visit.open("plain")
    await visit.expect_events(pageview("plain"), leave=False)
    # Until all three requests have been made.
    await visit.collector.close_listener()
    await visit.run("pharos('event', 'Lost?', {number: 1})")
    # The request has failed, which resets its time of sending to 0.
    await wait_for_result(
        lambda: visit.tab.evaluate("Object.values(sessionStorage).some((item) => item.startsWith('0{'))")
    )
    await visit.run("pharos('event', 'Lost?', {number: 2})")
    await visit.open("links")
    await visit.run("pharos('event', 'Lost?', {number: 3})")
    await visit.collector.open_listener()
    first, second = (("Lost?", "plain", {"number": number}) for number in (1, 2))
    third = ("Lost?", "links", {"number": 3})
    await visit.expect_events(
        pageview("plain"), first, second, pageview("links"), third, leave=False, seconds=120
    )
    await wait_for_result(lambda: visit.tab.evaluate("sessionStorage.length === 0"))
    await visit.wait_measured("Engagement")
    assert [path for name, path, _ in await visit.events(measured=True) if name == "Engagement"] == ["plain"]


async def test_a_failed_request_of_a_leaving_page_is_retried(visit: Visit) -> None:
    await visit.open("plain")
    await visit.expect_events(pageview("plain"), leave=False)
    await asyncio.sleep(0.6)
    await visit.collector.close_listener()
    # A page without a tracker.
    await visit.open("elsewhere")
    assert any('"Engagement"' in item for item in await visit.tab.evaluate("Object.values(sessionStorage)"))
    await visit.collector.open_listener()
    await visit.open("links")
    await visit.wait_measured("Engagement")
    await visit.wait_measured("Web Vital")
    await visit.expect_events(pageview("plain"), pageview("links"), leave=False)
    await wait_for_result(lambda: visit.tab.evaluate("sessionStorage.length === 0"))
    names = [event[0] for event in await visit.events(measured=True) if event[1] == "plain"]
    assert names.count("Engagement") == 1


async def test_unsent_events_are_dropped_after_a_day_and_on_opt_out(visit: Visit) -> None:
    await visit.open("plain")
    await visit.expect_events(pageview("plain"), leave=False)
    await visit.collector.close_listener()
    await visit.run("pharos('event', 'Old'); pharos('event', 'New')")
    waiting = "Object.values(sessionStorage).filter((item) => item.startsWith('0{')).length"
    await wait_for_result(lambda: visit.tab.evaluate(f"{waiting} === 2"))
    await visit.open("elsewhere")
    await visit.run(
        "const day = new Date(Date.now() - 864e5).toISOString();"
        "for (const [key, item] of Object.entries(sessionStorage)) if (item.includes('\"Old\"'))"
        ' sessionStorage[key] = item.replace(/(occurred_at":")[^"]*/, \'$1\' + day)'
    )
    await visit.open("links")
    forgotten = '!/"Old"/.test(Object.values(sessionStorage).join())'
    await wait_for_result(lambda: visit.tab.evaluate(forgotten))
    assert '"New"' in await visit.tab.evaluate("Object.values(sessionStorage).join()")
    # The events of the page itself are in flight, too.
    await visit.run("pharos('optout')")
    assert await visit.tab.evaluate("sessionStorage.length") == 0
    await visit.collector.open_listener()
    await visit.run("pharos('optin'); pharos('event', 'Open')")
    await visit.expect_events(pageview("plain"), ("Open", "links", {}))


async def test_pages_that_left_before_a_refusal_are_counted_once(visit: Visit) -> None:
    names = [f"page{number}" for number in range(14)]
    leaving = asyncio.Event()

    async def refuse() -> None:
        await leaving.wait()
        raise web.HTTPServiceUnavailable

    visit.collector.before_forwarding = refuse
    try:
        for name in names:
            await visit.open_and_leave(name)
    finally:
        visit.collector.before_forwarding = None
        leaving.set()
    await visit.expect_events(*(pageview(name) for name in names), leave=False)
    await wait_for_result(lambda: visit.tab.evaluate("sessionStorage.length === 0"))


# `test_pages_that_left_before_a_refusal_are_counted_once` covers the rule.
@pytest.mark.full
async def test_three_hundred_pages_left_on_a_loaded_machine_are_counted_once(visit: Visit) -> None:
    names = [f"page{number}" for number in range(300)]
    taken = itertools.count(1)

    async def refuse_every_fourth() -> None:
        await asyncio.sleep(0.3)
        if next(taken) % 4 == 0:
            raise web.HTTPServiceUnavailable

    visit.collector.before_forwarding = refuse_every_fourth
    busy = [await asyncio.create_subprocess_exec(sys.executable, "-c", "while True: pass") for _ in range(4)]
    try:
        for name in names:
            await visit.open_and_leave(name)
    finally:
        visit.collector.before_forwarding = None
        for process in busy:
            process.kill()
            await process.wait()
    await visit.expect_events(*(pageview(name) for name in names), leave=False, seconds=120)


async def test_a_transient_refusal_delays_and_a_permanent_one_drops_the_batch(visit: Visit) -> None:
    await visit.open("plain")
    await visit.expect_events(pageview("plain"), leave=False)
    await visit.tab.send("Fetch.enable", patterns=[{"urlPattern": "*/collect/*"}])

    async def respond(status: int, **headers: str) -> tuple[float, float, str, int]:
        """The latest request time, the earliest response time, the response, and the number of events that the tab
        keeps until then."""
        paused = await asyncio.wait_for(visit.tab.paused.get(), 60)
        sent_at = time.monotonic()
        stored = await visit.tab.evaluate("sessionStorage.length")
        response_headers = {
            "Access-Control-Allow-Origin": "*",
            "Access-Control-Expose-Headers": "Retry-After",
            **headers,
        }
        named = [{"name": name.replace("_", "-"), "value": value} for name, value in response_headers.items()]
        responded_at = time.monotonic()
        await visit.tab.send(
            "Fetch.fulfillRequest", requestId=paused["requestId"], responseCode=status, responseHeaders=named
        )
        return sent_at, responded_at, paused["request"]["postData"], stored

    await visit.run("pharos('event', 'Patient')")
    _, refused, first, stored = await respond(429, Retry_After="3")
    assert stored == 1
    again, failed, second, stored = await respond(503)
    # This holds even while the retry is in flight.
    assert stored == 1
    assert again - refused >= 3
    last, _, third, _ = await respond(400)
    assert last - failed >= 1.4
    assert first == second == third
    await wait_for_result(lambda: visit.tab.evaluate("sessionStorage.length === 0"))
    await visit.run("pharos('event', 'Next')")
    _, _, other, stored = await respond(202)
    assert stored == 1
    assert [event["properties"] for event in json.loads(other)["events"]] == [{"name": "Next"}]


async def test_batches_have_at_most_twenty_events_and_fit_a_keepalive_request(visit: Visit) -> None:
    await visit.tab.add_startup_script(
        "window.asked = []; const own = fetch; window.fetch = (url, options) =>"
        " { asked.push(options.keepalive + ' ' + options.credentials); return own(url, options) }"
    )
    await visit.open("plain")
    await visit.expect_events(pageview("plain"), leave=False)
    await visit.run("for (let i = 0; i < 45; i++) pharos('event', 'Many', {number: i})")
    many = [("Many", "plain", {"number": number}) for number in range(45)]
    await visit.expect_events(pageview("plain"), *many, leave=False)
    assert [len(json.loads(body)["events"]) for body in visit.tab.posts] == [1, 20, 20, 5]
    long = "ø" * 8000
    await visit.run(
        "for (let i = 0; i < 6; i++) pharos('event', 'Long', {number: i, text: 'ø'.repeat(8000)})"
    )
    texts = [("Long", "plain", {"number": number, "text": long}) for number in range(6)]
    await visit.expect_events(pageview("plain"), *many, *texts, leave=False)
    assert [len(json.loads(body)["events"]) for body in visit.tab.posts[4:]] == [3, 3]
    assert await visit.tab.evaluate("asked") == ["true omit"] * 6


async def test_nothing_is_sent_for_visitors_with_privacy_signals(visit: Visit) -> None:
    await visit.tab.add_startup_script(
        "Object.defineProperty(Navigator.prototype, 'globalPrivacyControl', {get: () => true})"
    )
    await visit.open("missing")
    await visit.run("pharos('event', 'Secret')")
    await asyncio.sleep(1.3)
    await visit.expect_events()
    assert await visit.events(measured=True) == []
    assert visit.tab.posts == []
    assert await visit.tab.evaluate("localStorage.length + sessionStorage.length") == 0


async def test_an_opt_out_lasts_until_it_is_revoked(visit: Visit) -> None:
    await visit.open("plain")
    await visit.expect_events(pageview("plain"), leave=False)
    await visit.run("pharos('event', 'Secret'); pharos('optout')")
    assert await visit.tab.evaluate("localStorage.pharos_ignore") == "true"
    await visit.open("links")
    await asyncio.sleep(1.3)
    assert len(visit.tab.posts) == 1
    await visit.run("pharos('optin'); pharos('event', 'Open')")
    assert await visit.tab.evaluate("localStorage.length") == 0
    await visit.expect_events(pageview("plain"), ("Open", "links", {}))


@pytest.mark.parametrize("name", ["under-api", "own-api"])
async def test_the_collect_address_is_derived_from_the_script_address(visit: Visit, name: str) -> None:
    await visit.tab.add_startup_script(MEASURED)
    await visit.open(name)
    # The measuring script is loaded from the same folder.
    await wait_for_result(lambda: visit.tab.evaluate("measured.length"))
    await visit.expect_events(pageview(name))
    await visit.wait_measured("Web Vital")


async def test_an_ipad_that_claims_to_be_a_mac_is_a_tablet(visit: Visit) -> None:
    await visit.tab.add_startup_script(
        "for (const [name, value] of [['platform', 'MacIntel'], ['maxTouchPoints', 5]])"
        " Object.defineProperty(Navigator.prototype, name, {get: () => value})"
    )
    await visit.open("plain")
    await visit.expect_events(pageview("plain", device="Tablet"))


async def test_an_old_browser_without_storage_is_counted_too(visit: Visit) -> None:
    await visit.tab.add_startup_script(
        "delete Crypto.prototype.randomUUID; for (const name of ['localStorage', 'sessionStorage'])"
        " Object.defineProperty(window, name, {get() { throw new Error('denied') }})"
    )
    await visit.open("plain")
    assert await visit.tab.evaluate("crypto.randomUUID") is None
    await visit.run("pharos('event', 'Works'); pharos('optout')")
    await visit.expect_events(pageview("plain"), ("Works", "plain", {}))


def test_the_tracker_is_small() -> None:
    built = TRACKER / "built"
    script = (built / "v1.js").read_bytes()
    assert len(gzip.compress(script)) <= 3000
    assert len((built / "v1.js.gz").read_bytes()) <= 3000
    assert b"web-vitals" not in script


def test_the_built_files_match_the_sources() -> None:
    with skip_if_missing():
        folder = tracker_copy()
    checked = check_build(folder)
    assert (checked.returncode, checked.stderr) == (0, "")
    with open(folder / "source" / "v1.js", "a") as source:
        source.write("document.title = 'changed';")
    (folder / "built" / "vitals.js.br").write_bytes(b"other")
    checked = check_build(folder)
    assert checked.returncode == 1
    named = [line.split()[0] for line in checked.stderr.splitlines()]
    assert named == ["built/v1.js", "built/v1.js.br", "built/v1.js.gz", "built/vitals.js.br"]
